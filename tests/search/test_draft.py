import hashlib
from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.search.draft import Draft, trial_key
from headtune.search.seeds import trial_seed
from headtune.trial import TrialRecord

PLAN = HeadPlan.of({"a": HeadCount(4, 4, 8), "b": HeadCount(2, 2, 8)})
DRAFT = Draft(kind="search", plan=PLAN, params={"lr": 0.1, "act": "gelu"}, repeat=0)


def test_equal_trainings_have_equal_keys() -> None:
    assert trial_key(PLAN, {"act": "gelu", "lr": 0.1}) == DRAFT.key
    assert replace(DRAFT, kind="baseline", label="present", curve=((1, 0.5),)).key == DRAFT.key
    assert len(DRAFT.key) == 16


def test_a_key_stays_what_it_is_since_checkpoints_are_named_by_it() -> None:
    text = '[{"a": [4, 4, 8], "b": [2, 2, 8]}, [["act", "gelu"], ["lr", 0.1]], 0]'
    assert DRAFT.key == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_equal_numbers_of_another_type_are_another_training() -> None:
    assert len({trial_key(PLAN, {"depth": depth}) for depth in (1, 1.0, 2)}) == 3


def test_a_key_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(HeadPlan, "to_json", lambda plan: asked.append(plan) or {"once": [1, 1, 1]})
    plan = HeadPlan.of({"once": HeadCount(1, 1, 1)})
    assert len({trial_key(plan, {"lr": 0.5}) for _ in range(5)}) == len(asked) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat": 1},
        {"params": {"lr": 0.1}},
        {"params": {"lr": 0.1 + 1e-16 * 2, "act": "gelu"}},
        {"plan": HeadPlan.of({"a": HeadCount(4, 2, 8), "b": HeadCount(2, 2, 8)})},
        {"plan": HeadPlan.of({"a": HeadCount(4, 4, 16), "b": HeadCount(2, 2, 8)})},
    ],
)
def test_different_trainings_have_different_keys(changes: dict[str, object]) -> None:
    assert replace(DRAFT, **changes).key != DRAFT.key  # type: ignore[arg-type]


def test_a_request_says_all_that_a_worker_needs() -> None:
    request = replace(DRAFT, repeat=2).request(7, study_seed=3, epochs=5)
    assert (request.number, request.kind, request.plan, request.params) == (7, "search", PLAN, DRAFT.params)
    assert (request.repeat, request.epochs, request.seed) == (2, 5, trial_seed(3, 2))
    assert request.key == trial_key(PLAN, DRAFT.params, 2)


def test_a_draft_comes_back_from_its_record() -> None:
    record = TrialRecord(
        number=1, kind="baseline", label="rule", plan=PLAN, params={}, repeat=0, seed=1, outcome=None, curve=((1, 0.5),)
    )
    assert Draft.of(record) == Draft(kind="baseline", label="rule", plan=PLAN, curve=((1, 0.5),))
