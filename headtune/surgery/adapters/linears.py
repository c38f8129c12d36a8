"""Changing the size of an ``nn.Linear`` where it stands."""

import torch
from torch import nn


def resize_linear(linear: nn.Linear, *, rows: int | None = None, columns: int | None = None) -> None:
    """Give *linear* other output (*rows*) or input (*columns*) features, keeping its place, hooks, device and type.

    Tensors whose shape changes are new ones, drawn by the module's own ``reset_parameters``; the others stay.
    """
    shape = (rows or linear.out_features, columns or linear.in_features)
    if shape == tuple(linear.weight.shape):
        return
    weight, bias = linear.weight, linear.bias
    linear.weight = nn.Parameter(weight.new_empty(shape), weight.requires_grad)
    if bias is not None:
        linear.bias = nn.Parameter(bias.new_empty(shape[0]), bias.requires_grad)
    linear.out_features, linear.in_features = shape
    with torch.no_grad():
        linear.reset_parameters()
    if bias is not None and bias.shape == linear.bias.shape:
        linear.bias = bias
