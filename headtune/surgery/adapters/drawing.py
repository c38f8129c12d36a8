"""Drawing the values of a tensor that gets another shape, as those were drawn that it had."""

import math

import torch
from torch import Tensor

_SIGMAS = 5
"""By how many standard errors two draws of one distribution may differ in mean and in deviation."""

_SLACK = 0.02
"""And by this part of the deviation, for rules that depend on the shape a little."""


def settle_draw(new: Tensor, old: Tensor, again: Tensor) -> None:
    """Draw *new* anew from the values of *old*, where the rule that drew it does not explain *old*.

    A model may give its weights any distribution: in a loop over its parameters, by a method of any name, by training.
    Where the rule that is known (a module's ``reset_parameters``, a model's ``_init_weights``) gives tensors of another
    mean or deviation, the old values themselves, drawn with replacement, are the nearest to what the model does.

    Args:
        new: what a rule drew in the wanted shape; is written into.
        old: what stood there.
        again: what the same rule draws in the shape of *old*.
    """
    if not (old.is_meta or new.is_meta) and old.numel() and not _alike(old, again):
        places = torch.randint(old.numel(), (new.numel(),)).to(old.device)
        new.copy_(old.detach().reshape(-1)[places].view_as(new))


def _alike(one: Tensor, other: Tensor) -> bool:
    count = one.numel()
    (mean, deviation), (mean_too, deviation_too) = _moments(one), _moments(other)
    if (deviation == 0) != (deviation_too == 0):
        return False
    spread = max(deviation, deviation_too)
    near_in_mean = abs(mean - mean_too) <= _SIGMAS * spread * math.sqrt(2 / count)
    near_in_spread = abs(deviation - deviation_too) <= (_SLACK + _SIGMAS / math.sqrt(2 * count)) * spread
    return near_in_mean and near_in_spread


def _moments(tensor: Tensor) -> tuple[float, float]:
    values = tensor.detach().double()
    return float(values.mean()), float(values.std(correction=0))
