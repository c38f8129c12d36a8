"""What the terminal shows of a study, from records with a planted truth."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from headtune.cli.result import front_rows, result_page
from headtune.heads import AttentionSite, HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.report import front_table
from headtune.study import Finalist, StudyRecord, Verdict
from headtune.trial import Outcome, TrialRecord

GOALS = (Objective(metric="acc", direction="maximize"), Objective(metric="parameters", direction="minimize"))


def plan(heads: int) -> HeadPlan:
    return HeadPlan.of({"a": HeadCount(heads, heads, 64 // heads)})


def trial(number: int, heads: int, acc: float, parameters: float, **changes: object) -> TrialRecord:
    made = TrialRecord(
        number=number,
        kind="search",
        label="",
        plan=plan(heads),
        params={"lr": 0.001 * heads},
        repeat=0,
        seed=0,
        outcome=Outcome.OK,
        metrics={"acc": acc, "parameters": parameters},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def finalist(heads: int, acc: tuple[float, ...], parameters: float, **changes: object) -> Finalist:
    made = Finalist(
        plan=plan(heads),
        params={"lr": 0.001 * heads},
        labels=(),
        measured={"parameters": parameters},
        latency=None,
        quality={"acc": acc},
        test={"test_acc": tuple(value - 0.01 for value in acc)},
        tied_with_best=False,
        feasible=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def searched() -> StudyRecord:
    """A study whose search has ended, with three plans on the front."""
    return StudyRecord(
        name="x",
        task="train.py:task",
        seed=0,
        hold="width",
        weights="fresh",
        sites=(AttentionSite(path="a", role="self", embed_dim=64, num_heads=4, num_kv_heads=4, head_dim=16),),
        objectives=GOALS,
        constraints={},
        limits={},
        space_size=7,
        sampler="random",
        trials_asked=3,
        epochs=2,
        latency=None,
        latency_range=None,
        baselines={"present": plan(4), "rule": plan(1)},
        trials=(trial(0, 4, 0.90, 200), trial(1, 1, 0.80, 100), trial(2, 8, 0.95, 300)),
    )


@pytest.fixture
def verified(searched: StudyRecord) -> StudyRecord:
    """The same study with its finalists judged."""
    return replace(
        searched,
        finalists=(
            finalist(4, (0.90, 0.92), 200, labels=("present",), tied_with_best=True),
            finalist(8, (0.91, 0.95), 300, tied_with_best=True),
            finalist(1, (0.80, 0.81), 100, labels=("rule",), feasible=False),
        ),
        verdict=Verdict(recommended=1, rule="the largest distance to the chord", findings=("4 and 8 heads tie",)),
    )


def text(*shown: object) -> list[str]:
    console = Console(file=io.StringIO(), width=500, markup=False)
    for part in shown:
        console.print(part)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_the_table_has_a_row_for_each_plan_with_its_spread_and_what_it_is(verified: StudyRecord) -> None:
    lines = text(front_rows(verified, front_table(verified)))
    assert lines[0] == "counts lr acc ↑ parameters ↓ test_acc seeds"
    assert set(lines[2:]) == {
        "A 1 rule, breaks a constraint 0.001 0.8050 ± 0.0071 100 0.7950 ± 0.0071 2",
        "B 4 present, ties with the best 0.004 0.910 ± 0.014 200 0.900 ± 0.014 2",
        "C 8 recommended 0.008 0.930 ± 0.028 300 0.920 ± 0.028 2",
    }


def test_a_baseline_outside_of_the_space_is_marked_whether_it_was_verified_or_not(verified: StudyRecord) -> None:
    trials = (trial(0, 4, 0.90, 200), trial(1, 1, 0.80, 100, kind="baseline", label="rule", in_space=False))
    finalists = (verified.finalists[0], replace(verified.finalists[2], feasible=True, in_space=False))
    for record in (replace(verified, trials=trials, finalists=()), replace(verified, trials=(), finalists=finalists)):
        marked = [line.split()[1] for line in text(front_rows(record, front_table(record))) if "outside the" in line]
        assert marked == ["1"]


def test_the_page_says_which_plan_and_why_and_what_to_know(verified: StudyRecord) -> None:
    lines = text(*result_page(verified))
    assert "Use 8 heads." in lines
    assert "The largest distance to the chord." in lines
    assert any(line.startswith("plan: a=8/8x8 with ") for line in lines)
    assert lines[-1] == "4 and 8 heads tie"


def test_a_study_that_was_not_verified_shows_its_front_and_that_nothing_is_recommended_yet(
    searched: StudyRecord,
) -> None:
    lines = text(*result_page(searched))
    assert lines[2:5] == ["A 1 0.001 0.8000 100 1", "B 4 0.004 0.9000 200 1", "C 8 0.008 0.9500 300 1"]
    assert "Nothing is recommended yet." in lines
    assert not [line for line in lines if line.startswith("plan: ")]


def test_a_study_without_any_trial(searched: StudyRecord) -> None:
    assert "Nothing is recommended yet." in text(*result_page(replace(searched, trials=())))


def test_a_plan_that_another_one_of_the_table_beats_is_marked(verified: StudyRecord) -> None:
    worse = finalist(2, (0.85, 0.86), 250)
    unlawful = finalist(16, (0.99, 0.99), 90, feasible=False)  # beats all, and may not be had
    lines = text(front_rows(verified, front_table(replace(verified, finalists=(*verified.finalists, worse, unlawful)))))
    assert [line.split()[1] for line in lines if "dominated" in line] == ["2"]
