import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import fmean, stdev
from typing import Any

import pytest

from headtune.heads.plan import HeadPlan
from headtune.report.documents import front_document, latency_document
from headtune.report.search_front import front_hypervolume, front_trials
from headtune.study.record import StudyRecord
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol

MakeRecord = Callable[..., StudyRecord]


def written(document: object) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def test_the_front_document_states_the_study(record: StudyRecord) -> None:
    found = written(front_document(record))
    assert found["study"] == {
        "name": "digits-vit",
        "task": "../examples/digits_vit.py:task",
        "seed": 0,
        "hold": "width",
        "weights": "fresh",
        "space_size": 216,
        "sampler": "gp",
        "epochs": 12,
        "trials_asked": 30,
        "trials_trained": sum(t.outcome in ("ok", "stopped") for t in record.trials),
        "outcomes": found["study"]["outcomes"],
        "versions": dict(record.versions),
    }
    assert sum(found["study"]["outcomes"].values()) == len(record.trials)
    assert found["objectives"] == [
        {"metric": "val_accuracy", "direction": "maximize", "unit": ""},
        {"metric": "latency_ms", "direction": "minimize", "unit": "ms"},
    ]
    assert found["constraints"] == {"latency_ms": "latency_ms ≤ 1.25 × present"}
    assert found["limits"] == {"latency_ms": 3.0}


def test_the_front_document_holds_the_front_and_its_hypervolume(record: StudyRecord) -> None:
    found = written(front_document(record))
    front = front_trials(record)
    assert [one["number"] for one in found["front"]] == [trial.number for trial in front]
    assert [HeadPlan.from_json(one["plan"]) for one in found["front"]] == [trial.plan for trial in front]
    assert [one["values"] for one in found["front"]] == [
        [trial.metrics["val_accuracy"], trial.metrics["latency_ms"]] for trial in front
    ]
    assert found["hypervolume"] == front_hypervolume(record)
    assert found["reference_point"] == list(record.reference_point or ())


def test_the_front_document_holds_what_verification_found(record: StudyRecord) -> None:
    found = written(front_document(record))
    plans = {str(HeadPlan.from_json(one["plan"])): one for one in found["plans"] if one["verified"]}
    assert len(plans) == len(record.finalists)
    for finalist in record.finalists:
        shown, values = plans[str(finalist.plan)], finalist.quality["val_accuracy"]
        assert shown["quality"]["val_accuracy"]["values"] == list(values)
        assert shown["quality"]["val_accuracy"]["mean"] == pytest.approx(fmean(values), rel=1e-15)
        assert shown["quality"]["val_accuracy"]["sd"] == pytest.approx(stdev(values), rel=1e-15)
        assert LatencyProfile.from_json(shown["latency"]) == finalist.latency
    assert [one["recommended"] for one in found["plans"]].count(True) == 1
    assert found["verdict"]["rule"] == record.verdict.rule if record.verdict else None


def test_the_latency_document_holds_every_profile(record: StudyRecord) -> None:
    found = written(latency_document(record))
    assert record.latency is not None
    assert record.latency_range is not None
    assert LatencyProtocol(**found["protocol"]) == record.latency
    assert found["versions"] == dict(record.versions)
    assert found["reference_ms"] == record.latency_range.reference_ms
    for name, profile in record.latency_range.profiles.items():
        assert LatencyProfile.from_json(found["range"][name]["profile"]) == profile
        assert HeadPlan.from_json(found["range"][name]["plan"]) == record.latency_range.plans[name]
    timed = [trial for trial in record.trials if trial.latency is not None]
    assert [one["number"] for one in found["trials"]] == [trial.number for trial in timed]
    assert [LatencyProfile.from_json(one["profile"]) for one in found["trials"]] == [trial.latency for trial in timed]
    assert [LatencyProfile.from_json(one["profile"]) for one in found["finalists"]] == [
        finalist.latency for finalist in record.finalists
    ]


def test_what_is_not_finite_is_null(record: StudyRecord) -> None:
    odd = replace(record.trials[0], metrics={**record.trials[0].metrics, "loss": math.inf})
    found = written(front_document(replace(record, trials=(odd,), finalists=(), verdict=None)))
    assert found["front"][0]["metrics"]["loss"] is None


def test_a_value_without_a_json_form_is_an_error(record: StudyRecord) -> None:
    odd = replace(record.trials[0], params={"x": object()})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"^object has no JSON form$"):
        front_document(replace(record, trials=(odd,), finalists=(), verdict=None))


def test_partial_studies_are_valid_json(partial: StudyRecord) -> None:
    front, latency = written(front_document(partial)), written(latency_document(partial))
    assert len(front["front"]) == len(front_trials(partial))
    assert (front["verdict"] is None) == (partial.verdict is None)
    assert latency["protocol"] == (None if partial.latency is None else asdict(partial.latency))
    assert bool(latency["range"]) == (partial.latency_range is not None)
