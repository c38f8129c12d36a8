"""Plans from the corners of a space, tried on the model before anything is paid."""

from collections.abc import Callable, Iterator

from headtune.errors import SurgeryError
from headtune.heads import HeadPlan, SearchSpace


def try_plans(space: SearchSpace, build: Callable[[HeadPlan], object]) -> None:
    """Build the smallest plan, the largest, and one whose sites have unlike counts.

    Raises:
        SurgeryError: what the model does not take, and how the space can leave it out.
    """
    problems: dict[str, str] = {}
    for plan, remedy in _corners(space):
        if problems and remedy == _TOGETHER:
            break  # unlike counts tell nothing where equal ones fail
        try:
            build(plan)
        except SurgeryError as error:
            problems |= dict.fromkeys(error.problems, remedy)
    if problems:
        raise SurgeryError(*(f"{problem}; {remedy}" for problem, remedy in problems.items()))


_FEWER = "or leave such counts out of the space, by space.heads or by constraints.head_dim"
_TOGETHER = "or let the counts change together, by `tie: uniform` in space, since plans with equal counts are taken"


def _corners(space: SearchSpace) -> Iterator[tuple[HeadPlan, str]]:
    """Plans, and what helps where the model does not take them."""
    yield space.smallest, _FEWER
    yield space.largest, _FEWER
    lasts = [len(dimension.choices) - 1 for dimension in space.dimensions]
    first = next((index for index, last in enumerate(lasts) if last), None)
    if first is not None and sum(map(bool, lasts)) > 1:
        yield space.plan([int(index == first) for index in range(len(lasts))]), _TOGETHER
