"""Joining what the probe saw to the modules that can be changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite, Role
from headtune.surgery.adapters import adapter_for, whole_blocks
from headtune.surgery.inputs import Inputs
from headtune.surgery.probe import AttentionCall, Projections, watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """An attention block, and what was seen of it.

    Attributes:
        site: the block.
        call: its (first) computation; without projections where several computations use different ones.
    """

    site: AttentionSite
    call: AttentionCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one watched forward pass found.

    Attributes:
        blocks: every attention block, by path, in the order of ``model.named_modules()``.
        unplaced: paths of modules whose softmax-weighted sums are not query-key attention.
        nan: whether the model's output holds a NaN.
    """

    blocks: dict[str, Located]
    unplaced: tuple[str, ...]
    nan: bool


def survey(model: nn.Module, inputs: Inputs) -> Survey:
    """Watch one forward pass and locate the attention in it.

    Raises:
        ForwardFailed: the forward pass raised.
        SurgeryError: no attention was recognised, or one block computes with several head counts.
    """
    watched = watch(model, inputs)
    if not watched.calls:
        raise SurgeryError(_nothing_seen(model, watched.unplaced))
    seen: dict[str, list[AttentionCall]] = {}
    for call in watched.calls:
        seen.setdefault(block_path(model, call), []).append(call)
    located = {path: _located(model, path, seen[path]) for path, _ in model.named_modules() if path in seen}
    problems = [problem for problem in located.values() if isinstance(problem, str)]
    if problems:
        raise SurgeryError(*problems)
    blocks = {path: block for path, block in located.items() if isinstance(block, Located)}
    return Survey(blocks=blocks, unplaced=watched.unplaced, nan=watched.nan)


def block_path(model: nn.Module, call: AttentionCall) -> str:
    """The running module of a known family; else the innermost that holds the query projection, or any parameter."""
    paths = [frame.path for frame in reversed(call.frames)]
    for path in paths:
        if any(adapter.matches(model.get_submodule(path)) for adapter in whole_blocks()):
            return path
    queries = call.projections.q - {""}
    for path in paths:
        names = [f"{path}.{name}" if path else name for name, _ in model.get_submodule(path).named_parameters()]
        if names and queries <= set(names):
            return path
    return paths[0]


def _located(model: nn.Module, path: str, calls: Sequence[AttentionCall]) -> Located | str:
    """The block of one or more calls, or why they cannot be one block."""
    adapter, call = adapter_for(model.get_submodule(path)), calls[0]
    counts = {HeadCount(one.num_heads, adapter.num_kv_heads(model, path, one), one.head_dim) for one in calls}
    if len(counts) > 1:
        listed = " and ".join(map(str, sorted(counts)))
        return (
            f"{path or 'the model'} computes attention {len(calls)} times, as {listed}: give each a module of its own"
        )
    passes = [next(frame for frame in one.frames if frame.path == path) for one in calls]
    if len(calls) > 1 and call.num_heads == 1 and passes[0] is passes[1]:
        return (
            f"{path or 'the model'} computes attention of one head {len(calls)} times in one pass, as if it took its "
            "heads one by one, which cannot be counted: compute all heads in one batch"
        )
    if any(one.projections != call.projections for one in calls):
        call = replace(call, projections=Projections())
    heads, kv_heads, head_dim = counts.pop()
    frame = passes[0]
    site = AttentionSite(
        path=path,
        role=_role(call, frame.sequences),
        embed_dim=_features_read(model, call) or frame.width or heads * head_dim,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
    )
    return Located(site=site, call=call)


def _role(call: AttentionCall, sequences: int) -> Role:
    # A block that is handed one sequence attends to that one, even if it projects a pooled or shifted copy of it.
    if call.two_inputs and sequences > 1:
        return "cross"
    return "causal" if call.causal else "self"


def _features_read(model: nn.Module, call: AttentionCall) -> int | None:
    """Features that the query projection reads."""
    names = call.projections.q - {""}
    if len(names) != 1:
        return None
    path, _, _ = next(iter(names)).rpartition(".")
    module = model.get_submodule(path)
    return module.in_features if isinstance(module, nn.Linear) else None


def _nothing_seen(model: nn.Module, unplaced: Sequence[str]) -> str:
    found = f"no attention was seen in the forward pass of {type(model).__name__}"
    if unplaced:
        listed = ", ".join(path or "the model" for path in unplaced)
        found += f", only softmax-weighted sums of another kind in {listed}"
    return (
        f"{found}; headtune recognises nn.MultiheadAttention, scaled_dot_product_attention and softmax(q·kᵀ)·v, "
        "but no kernels called directly (flex_attention, flash-attn)"
    )
