"""Which attention blocks a model has."""

import warnings

from torch import nn

from headtune.errors import SurgeryError, in_words
from headtune.heads.site import AttentionSite
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.located import Survey, survey
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.refusals import check_workable


def find_sites(model: nn.Module, inputs: Inputs) -> tuple[AttentionSite, ...]:
    """The attention blocks of *model*, as one watched forward pass really computes them.

    The pass runs in eval mode without gradients; the model is left as it was, random state included. A block that a
    model uses several times is one site. Roles are read from the masks of this pass: a model that is given no causal
    mask is not causal, and one token shows nothing.

    Args:
        model: any eager module; of a compiled one, the Python code is watched.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.

    Returns:
        The sites, in the order of ``model.named_modules()``.

    Warns:
        UserWarning: a module weights values by a softmax which is not one of query-key scores (talking heads, sparse
            patterns); it is no site.

    Raises:
        SurgeryError: the model or its inputs do not fit, no attention was seen, or one block computes with several head
            counts.
    """
    found = surveyed(model, inputs)
    for path in found.unplaced:
        warnings.warn(
            f"{path or 'the model'} weights values by a softmax that is not one of query-key scores: it is no site",
            stacklevel=2,
        )
    return tuple(block.site for block in found.blocks.values())


def surveyed(model: nn.Module, inputs: Inputs) -> Survey:
    """The survey of a person's model: whatever stands in the way is a SurgeryError."""
    check_workable(model)
    check_inputs(inputs)
    try:
        return survey(model, inputs)
    except ForwardFailed as failed:
        where = f" in {failed.path}" if failed.path else ""
        if type(failed.error).__module__.startswith("torch._dynamo") or "HigherOrderOperator" in in_words(failed.error):
            remedy = "kernels that compile themselves, such as flex_attention, cannot be watched"
        else:
            remedy = "give inputs that its forward takes, on the model's device"
        raise SurgeryError(
            f"the forward pass of {type(model).__name__} raised {in_words(failed.error)}{where}; {remedy}"
        ) from failed.error
