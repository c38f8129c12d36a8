"""A pruning ends where its goal is reached, and nowhere before or after."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from headtune.heads import HeadMask
from headtune.pareto import Objective
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.trial.prune_options import PruneGoal
from headtune.trial.pursuit import pursue
from headtune.trial.shrinking import PrunePoint, Shrunk

ACCURACY = Objective(metric="accuracy", direction="maximize")
ERROR = Objective(metric="accuracy", direction="minimize")
QUALITY = {8: 0.90, 7: 0.91, 6: 0.895, 5: 0.86, 4: 0.89}


def profile(ratio: float) -> LatencyProfile:
    return LatencyProfile(
        protocol=LatencyProtocol(),
        median_ms=ratio,
        p90_ms=ratio,
        interval_ms=(ratio, ratio),
        ratio=ratio,
        ratio_interval=(0.95 * ratio, 1.05 * ratio),
        reference_median_ms=1.0,
        samples=9,
        settled=True,
        contended=False,
        device_name="cpu",
        versions={},
    )


def steps(taken: list[int], timed: bool = True) -> Iterator[Shrunk]:
    for heads, value in QUALITY.items():
        taken.append(heads)
        point = PrunePoint(
            mask=HeadMask.of({"a": range(heads)}),
            quality={"accuracy": value},
            latency=profile(heads / 8) if timed else None,
            parameters=heads,
        )
        yield Shrunk(model=nn.Identity(), point=point)


def ended(goal: PruneGoal, quality: Objective = ACCURACY, **options: Any) -> tuple[list[int], int | None]:
    """The steps that were taken, and the heads of the one that is wanted."""
    taken: list[int] = []
    followed = list(pursue(goal, steps(taken, **options), quality))
    assert [step.point.heads for step, _ in followed] == taken
    return taken, next((step.point.heads for step, wanted in reversed(followed) if wanted), None)


def test_so_many_heads_are_left() -> None:
    assert ended(PruneGoal(heads=6)) == ([8, 7, 6], 6)
    assert ended(PruneGoal(heads=9)) == ([8], 8)
    assert ended(PruneGoal(heads=3)) == ([8, 7, 6, 5, 4], None)


def test_a_latency_counts_by_the_upper_end_of_its_interval() -> None:
    assert ended(PruneGoal(latency_ratio=0.625)) == ([8, 7, 6, 5, 4], 4), (
        "0.625 at most, by an interval that reaches 0.656"
    )
    assert ended(PruneGoal(latency_ratio=0.66)) == ([8, 7, 6, 5], 5)
    assert ended(PruneGoal(latency_ratio=0.5)) == ([8, 7, 6, 5, 4], None)
    assert ended(PruneGoal(latency_ratio=0.9), timed=False)[1] is None


def test_the_last_step_that_keeps_the_quality_is_wanted() -> None:
    assert ended(PruneGoal(quality_loss=0.01)) == ([8, 7, 6, 5], 6), "against the whole model, not the best"
    assert ended(PruneGoal(quality_loss=0.05)) == ([8, 7, 6, 5, 4], 4)
    assert ended(PruneGoal(quality_loss=0.0)) == ([8, 7, 6], 7)
    assert ended(PruneGoal(quality_loss=0.0), ERROR) == ([8, 7], 8)
