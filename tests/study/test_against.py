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
    assert read == {None: {plan: found.latency.profiles[name] for name, plan in found.latency.plans.items()}}


def test_what_was_written_of_several_lengths_is_read_back_by_length(make_profile: MakeProfile, tmp_path: Path) -> None:
    found = make_profile(lengths=(8, 16, 32))
    assert found.latency is not None
    read = read_latencies(written(found, tmp_path / "earlier.json"))
    assert read == {
        timed.length: {plan: timed.profiles[name] for name, plan in timed.plans.items()}
        for timed in found.latency.by_length
    }
    assert list(read) == [8, 16, 32]


def test_each_length_is_compared_with_the_same(make_profile: MakeProfile, tmp_path: Path) -> None:
    earlier = read_latencies(written(make_profile(lengths=(8, 16)), tmp_path / "earlier.json"))
    now = make_profile(ratios={"present": 1.0, "largest": 1.6}, lengths=(8, 16))
    found = {change.length: change for change in changes(now, earlier)}
    assert {length: change.comparison.ratio for length, change in found.items()} == {
        8: pytest.approx(1.3 / 1.15),
        16: pytest.approx(1.6 / 1.3),
    }
    document = profile_document(now, tuple(found.values()))
    assert document["against"]["largest"]["ratio"] == pytest.approx(1.6 / 1.3)
    assert document["lengths"]["8"]["against"]["largest"]["ratio"] == pytest.approx(1.3 / 1.15)


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        ((16,), (8,), "this profile is of length 16, the earlier one of length 8"),
        ((8, 16), (16,), "this profile is of length 8, the earlier one of length 16"),
        ((8, 16), (None,), "this profile is of length 8, the earlier one of no named length"),
        ((None,), (8, 16), "this profile is of no named length, the earlier one of length 8 and length 16"),
    ],
)
def test_lengths_that_were_not_timed_earlier_are_named(
    make_profile: MakeProfile,
    tmp_path: Path,
    now: tuple[int | None, ...],
    before: tuple[int | None, ...],
    said: str,
) -> None:
    earlier = read_latencies(written(make_profile(lengths=before), tmp_path / "earlier.json"))
    with pytest.raises(InputError) as caught:
        changes(make_profile(lengths=now), earlier)
    assert str(caught.value) == f"{said}; measure both alike"


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
        changes(found, {None: {**both, plans["smallest"]: make_latency(0.8, threads=2)}})
    with pytest.raises(InputError, match="the earlier profile is not of this model, whose present plan is layers"):
        changes(found, {None: {plans["smallest"]: make_latency(0.8)}})
    with pytest.raises(InputError, match="has none of these plans beside the present one; measure the same plans"):
        changes(found, {None: {plans["present"]: make_latency(1.0)}})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("{", "is no JSON (Expecting property name"),
        ("[1]", "holds no profile (TypeError"),
        ('{"plans": {"present": {"plan": {"a": [1]}, "latency": {}}}}', "holds no profile (PlanError: a: [1] is not"),
        ('{"plans": {"present": {"plan": {"a": [1, 1, 8]}, "latency": {}}}}', "holds no profile (KeyError"),
        ('{"plans": {}, "lengths": [1]}', "holds no profile (AttributeError"),
        ('{"plans": {}}', "holds no profile (ValueError: it has no plans)"),
        ("[" * 200_000, "is no JSON (maximum recursion depth exceeded"),
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


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"ratio": 0}, "LatencyProfile.ratio: must be a number above 0 (got 0)"),
        ({"ratio": "1.0"}, "LatencyProfile.ratio: must be a number above 0 (got '1.0')"),
        (
            {"ratio_interval": [1.0]},
            "LatencyProfile.ratio_interval: must be two numbers above 0, the smaller one first",
        ),
        ({"ratio_interval": [2.0, 1.0]}, "LatencyProfile.ratio_interval: must be two numbers above 0"),
        ({"ratio_interval": [None, None]}, "LatencyProfile.ratio_interval: must be two numbers above 0"),
        ({"ratio_interval": [0.9, 1.0, 1.1]}, "LatencyProfile.ratio_interval: must be two numbers above 0"),
        ({"median_ms": float("nan")}, "LatencyProfile.median_ms: must be a number above 0 (got nan)"),
        ({"samples": "x"}, "LatencyProfile.samples: must be a whole number (got 'x')"),
    ],
)
def test_numbers_that_no_measurement_gives_are_refused(
    make_profile: MakeProfile, tmp_path: Path, damage: dict[str, object], said: str
) -> None:
    path = written(make_profile(), tmp_path / "earlier.json")
    document = json.loads(path.read_text())
    document["plans"]["largest"]["latency"] |= damage
    path.write_text(json.dumps(document), encoding="utf-8-sig")  # as PowerShell writes it
    with pytest.raises(InputError) as caught:
        read_latencies(path)
    assert said in str(caught.value)


def test_a_plan_beside_the_present_one(make_latency: MakeLatency) -> None:
    compared = beside_present(make_latency(1.1, 0.05))
    assert (compared.ratio, compared.significant) == (1.1, True)
    assert not beside_present(make_latency(1.1, 0.15)).significant
