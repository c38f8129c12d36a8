from dataclasses import replace

import pytest

from headtune.cli.progress import Progress
from headtune.cli.trial_wording import tally, trial_ending, trial_state
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.trial import Outcome, TrialRecord

GOALS = (Objective(metric="acc", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
RUNNING = TrialRecord(
    number=7,
    kind="search",
    label="",
    plan=HeadPlan.of({"a": HeadCount(8, 8, 8), "b": HeadCount(8, 2, 8)}),
    params={},
    repeat=0,
    seed=0,
    outcome=None,
)
DONE = replace(RUNNING, outcome=Outcome.OK, metrics={"acc": 0.95704, "latency_ms": 3.21456, "other": 1.0})


def test_a_trial_that_ended_well_says_its_objectives() -> None:
    assert trial_ending(DONE, GOALS) == "acc 0.957, latency_ms 3.215"
    assert trial_ending(replace(DONE, metrics={}), GOALS) == Outcome.OK.sentence


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_any_other_trial_says_why(outcome: Outcome) -> None:
    assert trial_ending(replace(DONE, outcome=outcome), GOALS) == outcome.sentence
    assert trial_ending(replace(DONE, outcome=outcome, message="the data is broken"), GOALS) == "the data is broken"


def test_what_a_running_trial_does() -> None:
    assert trial_state(RUNNING, "acc") == "started"
    measured = replace(RUNNING, metrics={"latency_ms": 3.21456})
    assert trial_state(measured, "acc") == "measured: latency_ms 3.215"
    both = replace(RUNNING, metrics={"parameters": 7.0, "latency_ms@8": 0.5, "latency_ms": 3.21456})
    assert trial_state(both, "acc") == "measured: latency_ms@8 0.5, latency_ms 3.215"
    assert trial_state(replace(measured, curve=((1, 0.5), (2, 0.75))), "acc") == "report 2: acc 0.75"


def test_a_tally_has_every_part_that_there_is() -> None:
    clock = iter(range(0, 1000, 60)).__next__  # every look at the clock is a minute later
    progress = Progress(GOALS, clock)
    assert tally(progress) == ""
    progress.phase("search")
    progress.plan(8, 1)
    assert tally(progress) == "1 of 8 done"
    progress.trial(RUNNING)
    assert tally(progress) == "1 of 8 done, 1 running"
    for number, outcome in enumerate(Outcome, start=20):
        progress.trial(replace(RUNNING, number=number, repeat=number))
        progress.trial(replace(DONE, number=number, repeat=number, outcome=outcome))
    text = tally(progress)
    assert text.startswith(
        "3 of 8 done, 1 running, 1 stopped early, 1 broke a constraint, 1 diverged, 1 out of memory, 1 crashed, about "
    )
    assert text.endswith(" left")
