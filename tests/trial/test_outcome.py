import json

import pytest

from headtune.trial.outcome import Outcome


def test_every_way_a_trial_can_end() -> None:
    assert {outcome.value: outcome.sentence for outcome in Outcome} == {
        "ok": "trained to the end",
        "stopped": "stopped early: trials that are not slower did better at the same epoch",
        "infeasible": "breaks a constraint; known before training, so no epoch was paid",
        "diverged": "reported a value that is not finite",
        "out_of_memory": "ran out of memory",
        "crashed": "raised an error or lost its process",
    }


def test_what_counts_as_trained() -> None:
    assert [outcome for outcome in Outcome if outcome.trained] == [Outcome.OK, Outcome.STOPPED]


@pytest.mark.parametrize("outcome", Outcome)
def test_it_is_its_own_text_and_comes_back_from_it(outcome: Outcome) -> None:
    assert Outcome(json.loads(json.dumps(outcome))) is outcome
    assert str(outcome) == outcome.value
