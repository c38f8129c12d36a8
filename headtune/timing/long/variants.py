"""Timing the ways to spare long sequences, each beside the model as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

import headtune.rules as rules
from headtune.errors import HeadtuneError, InputError
from headtune.heads.site import AttentionSite, the_sites
from headtune.surgery.inputs import Inputs
from headtune.timing.device import resolve
from headtune.timing.forward import check_arguments
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.lane import Lane
from headtune.timing.latency import measure
from headtune.timing.long.checkpointing import checkpointed
from headtune.timing.long.switched import Switched
from headtune.timing.long.variant import LongVariant
from headtune.timing.long.window import windowed
from headtune.timing.memory import peak_memory_mb
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.train_step import Loss

WINDOW = 128
"""Positions of the window that is tried: few beside the lengths from which on sequences are long."""


def long_sequence_variants(
    model: nn.Module,
    inputs: Inputs | InputsFactory,
    protocol: LatencyProtocol,
    sites: Sequence[AttentionSite],
    *,
    window: int = WINDOW,
    lane: Lane | None = None,
    loss: Loss | None = None,
) -> tuple[LongVariant, ...]:
    """Time and memory of a model with attention within a window, and with activations computed again.

    The window in the protocol's mode, checkpointing in training steps; both in pairs with the model as it is.

    Args:
        model: left as it is.
        inputs: as for :func:`~headtune.timing.latency.measure`, on the model's device.
        protocol: likewise, of one sequence length.
        sites: what ``headtune.sites`` returned for the model.
        window: positions that a query sees, its own among them; as many to the other side where it is not causal.
        lane: as for :func:`~headtune.timing.latency.measure`.
        loss: likewise, of training steps.

    Returns:
        One value for the window and one for checkpointing; where one cannot be had, it says why.

    Raises:
        InputError: an argument of the wrong kind, or several sequence lengths with a callable for inputs.
        torch.OutOfMemoryError: it does not fit on the GPU; on the CPU a ``RuntimeError`` says so.
    """
    check_arguments("long_sequence_variants", model, protocol)
    problems = rules.broken({"sites": (sites, the_sites), "window": (window, rules.count)})
    if problems:
        raise InputError(*(f"long_sequence_variants: {problem}" for problem in problems))
    arguments, protocol = ready_inputs(inputs, resolve(protocol, torch.get_num_threads()))
    whole = _Whole(model=model, arguments=arguments, lane=lane, loss=loss)
    local = LongVariant(name="window", mode=protocol.mode, window=window)
    again = LongVariant(name="checkpointing", mode="train_step")
    if protocol.mode == "decode":
        within = replace(local, refused="a decoded token reads a cache, and no window makes that shorter")
    else:
        within = whole.beside(local, protocol, lambda: windowed(model, sites, arguments, window))
    training = replace(protocol, mode="train_step", cuda_graphs=False)
    return within, whole.beside(again, training, lambda: checkpointed(model, sites))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """The model as it is, with what it is given."""

    model: nn.Module
    arguments: Inputs
    lane: Lane | None
    loss: Loss | None

    def beside(self, empty: LongVariant, timed: LatencyProtocol, switch: Callable[[], Switched]) -> LongVariant:
        """The variant with the figures of the switched model beside the whole one, or with why there are none."""
        try:
            switched = switch()
            if not switched.paths:
                return replace(empty, refused=_every(switched), left_out=switched.left_out)
            profile = measure(
                switched.model, self.arguments, timed, reference=self.model, lane=self.lane, loss=self.loss
            )
            memory, memory_without = (self.memory(model, timed) for model in (switched.model, self.model))
        except HeadtuneError as error:
            return replace(empty, refused=error.problems[0])
        return replace(
            empty,
            ratio=profile.ratio,
            ratio_interval=profile.ratio_interval,
            median_ms=profile.median_ms,
            median_without_ms=profile.reference_median_ms,
            memory_mb=memory,
            memory_without_mb=memory_without,
            left_out=switched.left_out,
            doubts=profile.doubts,
        )

    def memory(self, model: nn.Module, timed: LatencyProtocol) -> float | None:
        """Peak memory; ``None`` where the device does not tell."""
        return None if timed.device == "mps" else peak_memory_mb(model, self.arguments, timed, loss=self.loss)


def _every(switched: Switched) -> str:
    """The reasons of all sites, each once."""
    reasons: dict[str, list[str]] = {}
    for path, reason in switched.left_out.items():
        reasons.setdefault(reason, []).append(path or "the model")
    return "; ".join(f"{', '.join(paths)}: {reason}" for reason, paths in reasons.items()) or "the model has no site"
