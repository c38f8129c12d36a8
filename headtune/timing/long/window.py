"""A model whose attention is switched to a window."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import InputError, SurgeryError, in_words
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery.adapters.ownership import replace_module
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.adapters.torch_mha import TorchMHA
from headtune.surgery.inputs import Inputs
from headtune.surgery.probe import Projections
from headtune.surgery.rng import isolated
from headtune.surgery.transaction import copied
from headtune.timing.calls import Call, calls_of
from headtune.timing.long.switched import Switched

_ARGUMENTS = inspect.signature(HeadedAttention.forward)


def windowed(model: nn.Module, sites: Sequence[AttentionSite], inputs: Inputs, window: int) -> Switched:
    """A copy of *model* in which a query sees the keys less than *window* positions away, and causal ones no later key.

    Every ``nn.MultiheadAttention`` gives way to a :class:`headtune.nn.HeadedAttention` with its weights; the model
    computes something else afterwards, and is as good as before only once it has been trained so.

    Args:
        model: left as it is.
        sites: what ``headtune.sites`` returned for it.
        inputs: arguments of forward on the model's device, with which the copy is run once to see how its blocks are
            called: not where weights are needed, nor for sequences that are no longer than the window.
        window: positions, the query's own among them.

    Raises:
        InputError: the window is no positive integer.
        SurgeryError: the model cannot be copied, or its forward pass raised.
    """
    if problems := rules.broken({"window": (window, rules.count)}):
        raise InputError(*(f"windowed: {problem}" for problem in problems))
    left_out = {site.path: reason for site in sites if (reason := _why_not(model, site)) is not None}
    copy = copied(model)
    with isolated(copy):  # a new block draws weights before it is given its own
        copy = _switch(copy, [site for site in sites if site.path not in left_out], inputs, window, left_out)
    return Switched(
        model=copy, paths=tuple(site.path for site in sites if site.path not in left_out), left_out=left_out
    )


def _switch(
    model: nn.Module, sites: Sequence[AttentionSite], inputs: Inputs, window: int, left_out: dict[str, str]
) -> nn.Module:
    """The model with a window at every site that is called so; those that are not join the ones *left_out*."""
    blocks: dict[str, tuple[nn.Module, HeadedAttention]] = {}
    for site in sites:
        old = model.get_submodule(site.path)
        assert isinstance(old, nn.MultiheadAttention | HeadedAttention)
        new = old if isinstance(old, HeadedAttention) else replacement(old, site.present)
        model = replace_module(model, old, new)
        blocks[site.path] = (old, new)
    TorchMHA().settle(model)
    with _blamed(model):
        seen = calls_of(model, inputs, {path: new for path, (_, new) in blocks.items()}, _of)
    for path, (old, new) in blocks.items():
        reasons = [reason for one in seen.get(path, ()) if (reason := one.why_not(window)) is not None]
        if reasons:
            left_out[path] = reasons[0]
            model = replace_module(model, new, old)
        else:
            new.window = window
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """How a block was called."""

    queries: int
    keys: int
    need_weights: bool

    def why_not(self, window: int) -> str | None:
        """Why it could not be called so with a window."""
        if self.need_weights:
            return "it is called for its weights, all of which no window computes; call it with need_weights=False"
        if self.queries != self.keys:
            return f"its {self.queries} queries and {self.keys} keys are not of one sequence"
        if self.queries <= window:
            return f"its sequence of {self.queries} positions is no longer than the window of {window}"
        return None


def _why_not(model: nn.Module, site: AttentionSite) -> str | None:
    """Why the block cannot be switched, however it is called."""
    block = model.get_submodule(site.path)
    if site.role == "cross":
        return "it attends to another sequence, in which a query has no neighbours"
    if not isinstance(block, nn.MultiheadAttention | HeadedAttention):
        return (
            f"{type(block).__name__} has no window that headtune knows; let nn.MultiheadAttention or "
            "headtune.nn.HeadedAttention stand there"
        )
    if block.bias_k is not None or block.add_zero_attn:
        option = "add_zero_attn" if block.add_zero_attn else "add_bias_kv"
        return f"its {option} appends a key without a position"
    if isinstance(block, nn.MultiheadAttention):
        return TorchMHA().why_not_resize(model, site, Projections(), site.present)
    if type(block).forward is not HeadedAttention.forward:
        return f"{type(block).__name__} has a forward of its own"
    return None if block.window is None else f"it has a window of {block.window} already"


def _of(block: nn.Module, called: Call) -> _Call:
    """What of a call matters to a window."""
    assert isinstance(block, HeadedAttention)
    args, kwargs = called
    bound = _ARGUMENTS.bind(block, *args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    query, key = given["query"], given["key"]
    assert isinstance(query, Tensor)
    assert isinstance(key, Tensor)
    along = 1 if query.dim() == 3 and block.batch_first else 0
    return _Call(queries=query.shape[along], keys=key.shape[along], need_weights=bool(given["need_weights"]))


@contextmanager
def _blamed(model: nn.Module) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise SurgeryError(
            f"the forward pass of {type(model).__name__} raised {in_words(error)}; "
            "give inputs that its forward takes, on the model's device"
        ) from error
