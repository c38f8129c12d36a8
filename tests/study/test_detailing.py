"""What a profile tells beside its named plans, on a model that is really measured."""

from collections.abc import Callable

import pytest

from headtune.execute import InlineExecutor
from headtune.heads import SpaceOptions
from headtune.study import StudySpec, check, profile, profile_findings
from headtune.study.detailing import design_size
from headtune.timing import LatencyProtocol
from headtune.trial import Silent

MakeSpec = Callable[..., StudySpec]
PATHS = ("encoder.layers.0.self_attn", "encoder.layers.1.self_attn")


class Listening(Silent):
    """Keeps what it is told of phases."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def phase(self, name: str, detail: str = "") -> None:
        """Keep it."""
        self.heard.append((name, detail))


def test_the_pass_is_taken_apart_and_heads_are_priced(make_spec: MakeSpec) -> None:
    spec = make_spec(latency=LatencyProtocol(batch_size=4, max_seconds=0.2, min_samples=10))
    observer = Listening()
    found = profile(spec, check(spec), InlineExecutor(), observer, details=True)
    assert found.latency is not None
    assert found.details is not None
    details = found.details
    assert details.traits.blocks == ()
    assert details.traits.launch is not None
    assert details.traits.launch.batch_sizes == (4, 2)
    assert set(details.kernels) == {"smallest", "rule", "present", "largest"}
    assert details.kernels["present"] == dict.fromkeys(PATHS, ("native encoder layer",))
    assert details.kernels["smallest"] == dict.fromkeys(PATHS, ("flash for the CPU",))  # it takes even counts alone
    assert details.unaligned["largest"] == dict.fromkeys(PATHS, 8)
    assert details.unaligned["smallest"] == {}
    (cost,) = details.costs
    assert cost.paths == PATHS
    assert cost.counts == (1, 16)
    assert cost.ratio.interval[0] <= cost.ratio.value <= cost.ratio.interval[1]
    assert details.fitted >= 7  # the three named ones, and four at least
    assert [name for name, _ in observer.heard] == ["profile"] * len(observer.heard)
    assert ("profile", "taking the pass of the present plan apart") in observer.heard
    assert len(profile_findings(found)) >= 4


def test_details_are_left_out_unless_asked_for(make_spec: MakeSpec) -> None:
    spec = make_spec(latency=LatencyProtocol(batch_size=2, max_seconds=0.05, min_samples=6))
    assert profile(spec, check(spec), InlineExecutor(), latency=True).details is None


@pytest.mark.parametrize(("options", "size"), [({}, 8), ({"tie": "uniform"}, 8)])
def test_the_design_is_as_large_as_the_space_needs(options: dict[str, object], size: int, make_spec: MakeSpec) -> None:
    spec = make_spec(space=SpaceOptions(hold="width", **options))  # type: ignore[arg-type]
    assert design_size(check(spec).space) == size


def test_the_larger_the_space_the_larger_the_design(make_spec: MakeSpec) -> None:
    assert design_size(check(make_spec(task_args={"layers": 7})).space) == 14


def test_a_space_of_few_plans_has_no_model_of_its_heads(make_spec: MakeSpec) -> None:
    spec = make_spec(
        space=SpaceOptions(hold="width", heads=(2, 4), tie="uniform"),
        latency=LatencyProtocol(batch_size=2, max_seconds=0.05, min_samples=6),
    )
    details = profile(spec, check(spec), InlineExecutor(), details=True).details
    assert details is not None
    assert (details.costs, details.error, details.fitted) == ((), None, 3)  # the rule's plan is a third
