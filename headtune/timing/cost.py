"""What a model costs before it runs."""

from torch import nn


def count_parameters(model: nn.Module) -> int:
    """Weights of the model, trainable or not; a parameter that several modules share counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
