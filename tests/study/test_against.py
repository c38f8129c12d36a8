"""A profile beside an earlier one, read from what the command line writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.cli.measure_document import profile_document
from headtune.errors import InputError
from headtune.study import Profile, beside_present, changes, read_latencies
from headtune.timing import LatencyProfile

MakeProfile = Callable[..., Profile]
MakeLatency = Callable[..., LatencyProfile]


def written(found: Profile, path: Path) -> Path:
    path.write_text(json.dumps(profile_document(found, ())))
    return path


def test_what_was_written_is_read_back(make_profile: MakeProfile, tmp_path: Path) -> None:
    found = make_profile()
    assert found.latency is not None
    read = read_latencies(written(found, tmp_path / "earlier.json"))
    assert read == {plan: found.latency.profiles[name] for name, plan in found.latency.plans.items()}


def test_each_plan_is_compared_by_its_counts(make_profile: MakeProfile, tmp_path: Path) -> None:
    earlier = read_latencies(written(make_profile(), tmp_path / "earlier.json"))
    now = make_profile(ratios={"smallest": 0.81, "present": 1.0, "largest": 1.6})
    same, slower = changes(now, earlier)
    assert (same.name, same.comparison.significant) == ("smallest", False)
    assert same.comparison.ratio == pytest.approx(0.81 / 0.8)
    assert (slower.name, slower.comparison.significant) == ("largest", True)
    assert slower.comparison.interval[0] < 1.6 / 1.3 < slower.comparison.interval[1]


def test_what_cannot_be_compared_is_refused(make_profile: MakeProfile, make_latency: MakeLatency) -> None:
    found = make_profile()
    assert found.latency is not None
    plans = found.latency.plans
    both = {plans["present"]: make_latency(1.0), plans["smallest"]: make_latency(0.8)}
    with pytest.raises(InputError, match="the threads of the two latencies is 1 and 2; measure both alike"):
        changes(found, {**both, plans["smallest"]: make_latency(0.8, threads=2)})
    with pytest.raises(InputError, match="the earlier profile is not of this model, whose present plan is layers"):
        changes(found, {plans["smallest"]: make_latency(0.8)})
    with pytest.raises(InputError, match="has none of these plans beside the present one; measure the same plans"):
        changes(found, {plans["present"]: make_latency(1.0)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("{", "is no JSON (Expecting property name"),
        ("[1]", "holds no profile (TypeError"),
        ('{"plans": {"present": {"plan": {"a": [1]}, "latency": {}}}}', "holds no profile (PlanError: a: [1] is not"),
        ('{"plans": {"present": {"plan": {"a": [1, 1, 8]}, "latency": {}}}}', "holds no profile (KeyError"),
    ],
)
def test_a_file_that_is_none(content: str | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_latencies(path)
    assert str(caught.value).startswith(f"{path}: {problem}")
    assert str(caught.value).endswith("; write one by `headtune measure study.yaml --json > FILE`")


def test_a_plan_beside_the_present_one(make_latency: MakeLatency) -> None:
    compared = beside_present(make_latency(1.1, 0.05))
    assert (compared.ratio, compared.significant) == (1.1, True)
    assert not beside_present(make_latency(1.1, 0.15)).significant
