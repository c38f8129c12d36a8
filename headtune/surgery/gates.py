"""A factor on the output of every head, without touching the model's code or its parameters.

Scaling what an output projection reads from a head is scaling the columns that read it, and only the weight passes by
every path there is: fused kernels, ``nn.MultiheadAttention`` (which never calls its output projection), compiled code,
other threads.

H heads, F features that an output projection reads.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import headtune.surgery.adapters.peft as peft
from headtune.errors import SurgeryError
from headtune.surgery.adapters.linears import is_conv1d, why_not_linear, why_not_plain
from headtune.surgery.adapters.ownership import owner, tied
from headtune.surgery.arguments import check_arguments
from headtune.surgery.refusals import check_workable
from headtune.surgery.wiring import Features, Wiring


@contextmanager
def gated(model: nn.Module, wirings: Mapping[str, Wiring], gates: Mapping[str, Tensor]) -> Iterator[None]:
    """Multiply the output of every head by its gate, as long as the block runs; gradients reach the gates.

    A gate of 0 is a head that was pruned; one of 1 changes nothing, to the last bit. A block that the model uses
    several times has one gate for all its uses. Parameters, ``state_dict`` and optimizers stay as they are. Where
    the model checkpoints its activations, call ``backward`` inside the block: recomputed outside, they are not gated.

    Args:
        model: as it was when *wirings* were found; gated in place, and put back whatever happens.
        wirings: what :func:`headtune.surgery.wiring.wirings` returned; ``nn.MultiheadAttention`` needs none.
        gates: path of an attention block → ``(H,)``; blocks without one stay as they are.

    Raises:
        SurgeryError: an argument is of the wrong type, a gate fits no block, or its heads cannot be told apart (every
            one).
    """
    check_workable(model)
    check_arguments({"wirings": (wirings, _the_wirings), "gates": (gates, _the_gates)})
    gatings, problems = _gatings(model, wirings, gates)
    if problems:
        raise SurgeryError(*problems)
    classes = [(gating.module, type(gating.module)) for gating in gatings]
    try:
        for gating in gatings:
            gating.module.__class__ = _gated_class(gating)
        yield
    finally:
        for module, cls in reversed(classes):
            module.__class__ = cls


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gating:
    """One output projection and the gate of the block that it reads.

    Attributes:
        gate: ``(H,)``.
        heads: ``(F,)``, the head that each column reads; H where it reads none.
    """

    module: nn.Module
    gate: Tensor
    heads: Tensor

    def factors(self, like: Tensor) -> Tensor:
        """What to multiply a weight like that with."""
        gate_H = torch.cat([self.gate, self.gate.new_ones(1)]).to(like.device, like.dtype)
        factor_F = gate_H[self.heads.to(like.device)]
        return factor_F[:, None] if is_conv1d(self.module) else factor_F


def _the_wirings(value: object) -> str:
    every = isinstance(value, Mapping) and all(isinstance(one, Wiring) for one in value.values())
    return "" if every else "must be what headtune.surgery.wiring.wirings(model, inputs) returned"


def _the_gates(value: object) -> str:
    every = isinstance(value, Mapping) and all(isinstance(gate, Tensor) for gate in value.values())
    return "" if every else "must be a mapping of paths to tensors, one factor for each head"


def _gatings(
    model: nn.Module, wirings: Mapping[str, Wiring], gates: Mapping[str, Tensor]
) -> tuple[list[_Gating], list[str]]:
    found: list[_Gating] = []
    problems: list[str] = []
    known = {path: wiring.out for path, wiring in wirings.items()}
    known |= {
        path: _out(block, path) for path, block in model.named_modules() if isinstance(block, nn.MultiheadAttention)
    }
    for path, gate in gates.items():
        if path not in known:
            listed = ", ".join(name or "the model" for name in known) or "none"
            problem = [f"is no attention block whose heads can be told apart; these can: {listed}"]
        elif tuple(gate.shape) != (len(known[path]),):
            problem = [f"its gate has the shape {tuple(gate.shape)}, but it has {len(known[path])} heads"]
        else:
            names = dict.fromkeys(name for read in known[path] for name in read)
            problem = [reason for name in names if (reason := _why_not(model, name)) is not None]
            if not problem:
                found += [_gating(owner(model, name)[1], gate, known[path], name) for name in names]
        problems += [f"{path or 'the model'}: {reason}" for reason in problem]
    return found, problems


def _gating(module: nn.Module, gate: Tensor, out: tuple[Features, ...], name: str) -> _Gating:
    weight = module._parameters["weight"]  # the plain one, also inside other gates
    assert weight is not None
    head_F = torch.full((weight.shape[0 if is_conv1d(module) else 1],), len(out))
    for head, read in enumerate(out):
        head_F[sorted(read.get(name, ()))] = head
    return _Gating(module=module, gate=gate, heads=head_F)


def _out(block: nn.MultiheadAttention, path: str) -> tuple[Features, ...]:
    """The columns of the output projection that read each head of PyTorch's own block."""
    name = f"{path}.out_proj.weight" if path else "out_proj.weight"
    size = block.embed_dim // block.num_heads
    return tuple({name: frozenset(range(head * size, (head + 1) * size))} for head in range(block.num_heads))


def _why_not(model: nn.Module, name: str) -> str | None:
    if not name:
        return "its output is read by a weight that is computed in the forward pass, which cannot be gated"
    if reason := why_not_linear(model, name) or why_not_plain(model, name) or peft.why_not_gated(model, name):
        return reason
    ties = tied(model, [name])
    return f"{ties[0]}: untie them first, so that each has its own gates" if ties else None


def _gated_class(gating: _Gating) -> type[nn.Module]:
    """A class like the module's own whose weight is gated where it is read; its parameter stays the plain one."""
    cls = type(gating.module)
    inner = vars(cls).get("weight")  # where gates stand around these

    def weight(module: nn.Module) -> Tensor | None:
        plain = inner.fget(module) if isinstance(inner, property) and inner.fget else module._parameters["weight"]
        return None if plain is None else plain * gating.factors(plain)

    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "weight": property(weight)})
