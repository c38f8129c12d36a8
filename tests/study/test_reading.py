"""A study read back without its task."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from headtune.errors import StorageError, TrialError
from headtune.heads import HeadDimConstraint, Limit, SpaceOptions
from headtune.search import Ledger
from headtune.study import StudySpec, VerifyOptions, check, read, search
from headtune.study.reading import checked_to_json, manifest_of
from headtune.trial import Outcome

MakeSpec = Callable[..., StudySpec]


def test_a_finished_study_is_read_as_search_returned_it_also_when_its_task_is_gone(make_spec: MakeSpec) -> None:
    spec = make_spec(trials=3, epochs=1, verify=VerifyOptions(top=1, seeds=1, max_seeds=1))
    record = search(spec)
    gone = replace(spec, task=replace(spec.task, target="nowhere.py:task"))  # type: ignore[type-var]
    assert read(gone) == record
    assert {trial.kind for trial in record.verify_trials} == {"verify"}


def test_what_never_was_is_refused_in_words(make_spec: MakeSpec) -> None:
    spec = make_spec(trials=3, epochs=1)
    with pytest.raises(StorageError):
        read(spec)
    search(spec)
    with pytest.raises(StorageError, match=r"has no study 'other'; it has tiny$"):
        read(replace(spec, name="other"))


def test_a_study_that_never_got_through_its_check_holds_nothing(make_spec: MakeSpec) -> None:
    spec = make_spec()
    Ledger.open(spec.storage, "tiny", objectives=spec.objectives, fingerprint={}, manifest=manifest_of(spec)).close()
    with pytest.raises(StorageError) as caught:
        read(spec)
    assert str(caught.value) == "study 'tiny' holds nothing yet: run `headtune search` first"


def test_a_failed_study_can_be_read(make_spec: MakeSpec) -> None:
    spec = make_spec({"bad": dict.fromkeys(("1", "2", "4", "8", "16"), "raise")}, trials=3)
    with pytest.raises(TrialError):
        search(spec)
    record = read(spec)
    assert {trial.outcome for trial in record.trials} == {Outcome.CRASHED}
    assert (record.finalists, record.verdict, record.reference_point) == ((), None, None)


def test_the_manifest_is_json_and_says_what_the_study_is(make_spec: MakeSpec) -> None:
    spec = make_spec(
        trials=9,
        epochs=4,
        space=SpaceOptions(hold="width", head_dim=HeadDimConstraint(min=4)),
        limits=(Limit(metric="parameters", max=9000),),
        seed=3,
    )
    manifest = manifest_of(spec)
    assert json.loads(json.dumps(manifest)) == manifest
    asked = {name: manifest[name] for name in ("task", "seed", "hold", "weights", "trials_asked", "epochs", "latency")}
    assert asked == {
        "task": "tiny.py:task",
        "seed": 3,
        "hold": "width",
        "weights": "fresh",
        "trials_asked": 9,
        "epochs": 4,
        "latency": None,
    }
    assert manifest["constraints"] == {"parameters": "parameters ≤ 9,000 weights", "head_dim": "head_dim ≥ 4"}


def test_what_the_check_found_is_kept_with_every_name_of_every_baseline(make_spec: MakeSpec) -> None:
    checked = check(make_spec())
    kept = checked_to_json(checked)
    assert json.loads(json.dumps(kept)) == kept
    assert set(kept["baselines"]) == {"present", "rule", "rule-mixed", "smallest", "largest"}
    assert kept["space_size"] == 25
    assert [site["num_heads"] for site in kept["sites"]] == [4, 4]
