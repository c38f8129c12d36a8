"""The wiring of every attention block of a model."""

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import nn

import headtune.surgery.wiring.reasons as reasons
from headtune.errors import SurgeryError, in_words
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.located import block_path
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import ForwardFailed, observe
from headtune.surgery.refusals import check_workable
from headtune.surgery.wiring.tracing import Tracer
from headtune.surgery.wiring.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What was seen of the wires of a model.

    Attributes:
        wirings: path of a block → its wiring.
        reasons: path of a block whose heads could not be followed → why, as a sentence.
        made: path of a block → what makes its queries, keys and values, also where nothing is known of its output.
    """

    wirings: dict[str, Wiring]
    reasons: dict[str, str]
    made: dict[str, Wiring]


def follow(model: nn.Module, inputs: Inputs, *, in_order: bool = False) -> Followed:
    """Follow the heads of every attention block, in one forward pass, or two where some features are dead in it.

    Values are read, so that no head can be followed on the meta device. The insides of ``nn.MultiheadAttention`` cannot
    be seen; put a :class:`headtune.nn.HeadedAttention` in its place first.

    Args:
        model: left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        in_order: have no wiring of blocks where features of other heads stand in other orders.

    Raises:
        SurgeryError: the forward pass raised, which may well run without gradients, or with other numbers.
    """
    found, made, whole = _passed(model, inputs, alive=False, in_order=in_order)
    if not whole:
        # Features that nothing passes on for these values, as behind a ReLU, or whose gradient is another head's zero.
        with suppress(SurgeryError):
            alive, made_alive, _ = _passed(model, inputs, alive=True, in_order=in_order)
            made |= made_alive
            found = {path: _fuller(outcome, alive.get(path)) for path, outcome in found.items()}
    complete = {path: outcome for path, outcome in found.items() if isinstance(outcome, Wiring)}
    return Followed(
        wirings=complete,
        made=made | complete,
        reasons={path: outcome for path, outcome in found.items() if isinstance(outcome, str)},
    )


def _passed(
    model: nn.Module, inputs: Inputs, *, alive: bool, in_order: bool
) -> tuple[dict[str, Wiring | str], dict[str, Wiring], bool]:
    """The outcome of every block in one pass, what made its heads, and whether every feature of it was followed."""
    recorder = Recorder(model)
    tracer = Tracer(recorder, alive=alive, in_order=in_order)
    try:
        with torch.no_grad():
            observe(model, inputs, recorder, tracer)
    except ForwardFailed as failed:
        where = f" in {failed.path}" if failed.path else ""
        raise SurgeryError(
            "heads cannot be followed: with gradients, and numbers of heads for values, forward raises "
            f"{in_words(failed.error)}{where}; let it run whatever its values"
        ) from failed.error
    numbers: dict[str, list[int]] = {}
    for number, call in enumerate(recorder.calls):
        numbers.setdefault(block_path(model, call), []).append(number)
    joined = {path: _joined([tracer.outcome(number) for number in calls]) for path, calls in numbers.items()}
    sides = {path: [tracer.made(number) for number in calls] for path, calls in numbers.items()}
    made = {path: one for path, (one, *more) in sides.items() if one is not None and all(one == two for two in more)}
    return joined, made, all(isinstance(outcome, Wiring) and tracer.is_whole(outcome) for outcome in joined.values())


def _fuller(seen: Wiring | str, alive: Wiring | str | None) -> Wiring | str:
    """What was found with other values, where it explains more than what was seen with the values that there are."""
    if not isinstance(alive, Wiring) or seen in (reasons.BLIND, reasons.ON_META):
        return seen
    return alive if isinstance(seen, str) or alive.holds(seen) else seen


def wirings(model: nn.Module, inputs: Inputs) -> dict[str, Wiring]:
    """For each attention block whose heads could be followed, its wiring: what :func:`follow` finds."""
    check_workable(model)
    check_inputs(inputs)
    return follow(model, inputs).wirings


def _joined(outcomes: list[Wiring | str]) -> Wiring | str:
    """The one outcome of all computations of a block."""
    reason = next((outcome for outcome in outcomes if isinstance(outcome, str)), None)
    if reason is not None:
        return reason
    return outcomes[0] if all(outcome == outcomes[0] for outcome in outcomes) else reasons.SEVERAL
