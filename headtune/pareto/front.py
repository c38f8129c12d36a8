"""A Pareto front: the points that no other point dominates, each with what it stands for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headtune.pareto.dominance import losses, non_dominated
from headtune.pareto.indicator import hypervolume
from headtune.pareto.objective import Objective
from headtune.pareto.tradeoff import knee

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint(Generic[T]):
    """The values of something, one for each objective."""

    values: tuple[float, ...]
    item: T


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoFront(Generic[T]):
    """Points of which none dominates another, the best in the first objective first.

    Points that tie there are ordered by the next objective, and equal points, which all stay, as they came.
    """

    objectives: tuple[Objective, ...]
    points: tuple[ParetoPoint[T], ...]

    @classmethod
    def of(cls, objectives: Sequence[Objective], points: Iterable[tuple[Sequence[float], T]]) -> "ParetoFront[T]":
        """The front of any points, given as pairs of values and item.

        Raises:
            InputError: as for :func:`dominance.losses`.
        """
        every = [ParetoPoint(values=tuple(values), item=item) for values, item in points]
        values = [point.values for point in every]
        loss = losses(values, objectives).tolist()
        best_first = sorted(non_dominated(values, objectives), key=lambda index: (loss[index], index))
        return cls(objectives=tuple(objectives), points=tuple(every[index] for index in best_first))

    def knee_point(self) -> ParetoPoint[T]:
        """The point that :func:`tradeoff.knee` takes.

        Raises:
            InputError: the front is empty.
        """
        return self.points[knee([point.values for point in self.points], self.objectives)]

    def knee(self) -> T:
        """The item of :meth:`knee_point`."""
        return self.knee_point().item

    def hypervolume(self, reference: Sequence[float]) -> float:
        """The volume that the front dominates up to *reference*; see :func:`indicator.hypervolume`."""
        return hypervolume([point.values for point in self.points], self.objectives, reference)

    @property
    def items(self) -> tuple[T, ...]:
        """What the points stand for."""
        return tuple(point.item for point in self.points)

    def __repr__(self) -> str:
        return "\n  ".join([f"ParetoFront of {len(self)} points", *map(self._line, self.points)])

    def _line(self, point: ParetoPoint[T]) -> str:
        values = zip(self.objectives, point.values, strict=True)
        return f"{', '.join(f'{goal.metric} {value:.6g}' for goal, value in values)}: {point.item!r}"

    def __iter__(self) -> Iterator[ParetoPoint[T]]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)
