"""Where the heads of every attention lie: found by sending numbers through the model in place of their outputs.

B batch, H heads, T queries, S keys, D features per head, F features that an output projection reads, P positions that
it reads; L all leading dimensions of an attention map, those of batch and heads.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.operations import SDPA
from headtune.surgery.probe.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Where the heads of one attention computation lie.

    Attributes:
        maps: ``(B, H)``, the index of a head's map among the L.
        positions: ``(B, T)``, the index among the P.
        features: ``(H, D)``, the indices among the F.
    """

    maps: Tensor
    positions: Tensor
    features: Tensor

    @classmethod
    def of(cls, numbers: Tensor, heads: int, queries: int) -> "Placement | None":
        """The placement that an output projection shows which reads *numbers*; None where they came through changed.

        Args:
            numbers: ``(P, F)``; ``l * T + t`` for the query t of the map l.
            heads: H.
            queries: T.
        """
        l_PF, t_PF = numbers.long() // queries, numbers.long() % queries
        of_first = l_PF[0].unique()
        columns = [(l_PF[0] == number).nonzero().flatten() for number in of_first]
        if len(columns) != heads or len({len(column) for column in columns}) != 1:
            return None
        features_HD = torch.stack(columns)
        l_PH, t_P = l_PF[:, features_HD[:, 0]], t_PF[:, 0]
        maps_BH, item_P = l_PH.unique(dim=0, return_inverse=True)
        if len(maps_BH) * queries != len(t_P):
            return None
        order = (item_P * queries + t_P).argsort()
        found = cls(maps=maps_BH, positions=order.reshape(len(maps_BH), queries), features=features_HD)
        return found if torch.equal(found.numbers(queries), numbers.double()) else None

    def numbers(self, queries: int) -> Tensor:
        """``(P, F)``, the numbers that an output projection reads where heads lie like this."""
        numbers_BTH = self.maps[:, None, :] * queries + torch.arange(queries, device=self.maps.device)[:, None]
        numbers_PF = self.positions.new_zeros(self.positions.numel(), self.features.numel())
        rows, columns = self.positions.flatten(), self.features.flatten()
        spread = numbers_BTH.flatten(0, 1).repeat_interleave(self.features.shape[1], 1)
        numbers_PF[rows[:, None], columns] = spread
        return numbers_PF.double()

    def arranged(self, source: Tensor) -> Tensor:
        """What an output projection reads, as ``(B, T, H, D)``."""
        source_PF = source.reshape(-1, source.shape[-1])
        return source_PF[self.positions][..., self.features]


class Placer(CallMode):
    """Passes calls on to a recorder, and puts numbers in the place of every attention's output.

    Attributes:
        found: number of the recorder's attention call → its placement; without those that could not be followed.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.found: dict[int, Placement] = {}
        self._recorder = recorder
        self._open: dict[int, tuple[int, torch.dtype]] = {}

    def see(self, call: FunctionCall) -> object:
        """Make the call, with numbers where they have come by."""
        projection = self._recorder.projection(call.function, call.args, call.kwargs)
        number = self._recorder.call_read_in(projection[0]) if projection else None
        if projection is not None and number in self._open:
            result: object = self._read(number, projection[0], call)
        else:
            result = call.run()
        seen = len(self._recorder.calls)
        self._recorder.see(call.function, call.args, call.kwargs, result)
        if len(self._recorder.calls) > seen and isinstance(result, Tensor):
            numbers = self._numbers(call, seen, result)
            if numbers is not None:
                self._recorder.replace(result, numbers)
                return numbers
        return result

    def _read(self, number: int, source: Tensor, call: FunctionCall) -> Tensor:
        """Read the numbers, and go on as if the heads had put out zeros."""
        queries, dtype = self._open[number]
        heads = self._recorder.calls[number].num_heads
        placement = Placement.of(source.reshape(-1, source.shape[-1]), heads, queries)
        if placement is not None:
            self.found.setdefault(number, placement)
        return call.again({source: torch.zeros_like(source, dtype=dtype)})

    def _numbers(self, call: FunctionCall, number: int, result: Tensor) -> Tensor | None:
        """``l * T + t`` in the shape of an attention's output."""
        if call.function is SDPA:
            *leading, queries, _ = result.shape
            numbers = _count(leading, queries, result).expand(result.shape).clone()
        else:
            operands = weights_and_values(call, self._recorder)
            if operands is None:
                return None
            weights, values = operands
            *leading, queries, _ = weights.shape
            marked = torch.zeros_like(weights, dtype=torch.float64)
            marked[..., :1] = _count(leading, queries, result)
            numbers = call.again({weights: marked, values: torch.ones_like(values, dtype=torch.float64)})
        self._open[number] = (queries, result.dtype)
        return numbers


def weights_and_values(call: FunctionCall, recorder: Recorder) -> tuple[Tensor, Tensor] | None:
    """The two operands of a product of attention weights and values."""
    factors = call.product()
    if factors is None:
        return None
    if recorder.scores_in(factors.left) is not None:
        return factors.left, factors.right
    return factors.right, factors.left


def _count(leading: list[int], queries: int, like: Tensor) -> Tensor:
    """``(L…, T, 1)`` in float64, which holds such numbers exactly."""
    total = torch.Size(leading).numel() * queries
    return torch.arange(total, dtype=torch.float64, device=like.device).reshape(*leading, queries, 1)
