import io
import re
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from headtune.cli.logged import Logged
from headtune.cli.observers import Lines, Screen, watching
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.trial import Observer, Outcome, TrialRecord

GOALS = (Objective(metric="acc", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def running(number: int, label: str = "", heads: int = 2) -> TrialRecord:
    return TrialRecord(
        number=number,
        kind="baseline" if label else "search",
        label=label,
        plan=HeadPlan.of({"a": HeadCount(heads, heads, 8)}),
        params={},
        repeat=0,
        seed=0,
        outcome=None,
    )


def end(observer: Observer, number: int, acc: float, latency_ms: float, outcome: Outcome = Outcome.OK) -> None:
    observer.trial(running(number))
    metrics = {"acc": acc, "latency_ms": latency_ms}
    observer.trial(
        replace(running(number), outcome=outcome, metrics=metrics, message="" if outcome is Outcome.OK else "broken")
    )


def a_whole_study(observer: Observer, clock: Clock) -> None:
    observer.phase("check", "train.py:task")
    observer.phase("profile", "timing plans before any training")
    observer.phase("search", "6 trials, 25 plans")
    observer.plan(6, 0)
    observer.note("sampler random: as asked")
    for number in range(5):
        clock.now += 2
        end(observer, number, 0.9 + number / 100, 3.0 + number)
    end(observer, 5, 0.0, 0.0, Outcome.CRASHED)
    clock.now += 2
    end(observer, 6, 0.8, 2.0)
    observer.phase("verify", "2 plans × 1 seeds")
    observer.plan(2, 0)


def test_plain_lines_say_phases_notes_every_ended_trial_and_how_far_it_is() -> None:
    clock, lines = Clock(), list[str]()
    a_whole_study(Lines(GOALS, lines.append, clock=clock), clock)
    assert lines == [
        "check: train.py:task",
        "profile: timing plans before any training",
        "search: 6 trials, 25 plans",
        "search: 0 of 6 done",
        "sampler random: as asked",
        "search: trial 0 2: acc 0.9, latency_ms 3 [1 of 6 done, about 10 s left]",
        "search: trial 1 2: acc 0.91, latency_ms 4 [2 of 6 done, about 8 s left]",
        "search: trial 2 2: acc 0.92, latency_ms 5 [3 of 6 done, about 6 s left]",
        "search: trial 3 2: acc 0.93, latency_ms 6 [4 of 6 done, about 4 s left]",
        "search: trial 4 2: acc 0.94, latency_ms 7 [5 of 6 done, about 2 s left]",
        "search: trial 5 2: broken [5 of 6 done, 1 crashed, about 2 s left]",
        "search: trial 6 2: acc 0.8, latency_ms 2 [6 of 6 done, 1 crashed]",
        "verify: 2 plans × 1 seeds",
        "verify: 0 of 2 done",
    ]


def test_a_burst_of_trials_skips_none_and_a_failure_is_told_each_time() -> None:
    lines = list[str]()
    observer = Lines(GOALS, lines.append, clock=Clock())  # all within one moment
    observer.phase("search")
    for number in range(100):
        end(observer, number, 0.5, 3.0, Outcome.CRASHED if number % 10 == 9 else Outcome.OK)
    told = [re.match(r"search: trial (\d+) 2: (\w+)", line) for line in lines[1:]]
    assert [(int(one[1]), one[2]) for one in told if one] == [
        (number, "broken" if number % 10 == 9 else "acc") for number in range(100)
    ]


def test_running_trials_write_no_lines() -> None:
    lines = list[str]()
    observer = Lines(GOALS, lines.append)
    observer.trial(running(0))
    observer.trial(replace(running(0), curve=((1, 0.5),)))
    assert lines == []


def screen(clock: Clock) -> tuple[Screen, Console]:
    console = Console(file=io.StringIO(), width=100, force_terminal=False, markup=False)
    return Screen(GOALS, console, clock), console


def seen(observer: Screen) -> list[str]:
    console = Console(file=io.StringIO(), width=100, markup=False)
    console.print(observer.view())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_the_live_view_before_any_trial_says_what_the_phase_does() -> None:
    observer, _ = screen(Clock())
    observer.phase("profile", "timing plans before any training")
    assert seen(observer) == ["profile timing plans before any training"]


def test_the_live_view_shows_what_is_done_what_runs_and_the_front_so_far() -> None:
    clock = Clock()
    observer, _ = screen(clock)
    observer.phase("search", "10 trials")
    observer.plan(10, 0)
    clock.now = 30
    end(observer, 0, 0.90, 3.0)
    end(observer, 1, 0.95, 4.0)
    end(observer, 2, 0.80, 5.0)
    observer.trial(replace(running(3, label="rule", heads=1), curve=((2, 0.5),)))
    assert seen(observer) == [
        "search  3 of 10 done, 1 running, about 70 s left",
        "        trial 3 (rule) 1: report 2: acc 0.5",
        "",
        "front so far   acc ↑   latency_ms ↓",
        "───────────────────────────────────",
        "trial 1 2       0.95              4",
        "trial 0 2        0.9              3",
    ]


def test_the_best_value_of_each_objective_is_bold() -> None:
    observer, _ = screen(Clock())
    end(observer, 0, 0.90, 3.0)
    end(observer, 1, 0.95, 4.0)
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(observer.view())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [line for line in shown.splitlines() if line.startswith("trial ")]
    assert [re.findall(r"\x1b\[1m *(\S+)\x1b\[0m", row) for row in rows] == [["0.95"], ["3"]]


def test_a_long_front_is_cut() -> None:
    observer, _ = screen(Clock())
    for number in range(12):
        end(observer, number, 0.5 + number / 100, 1.0 + number)
    lines = seen(observer)
    assert sum(line.startswith("trial ") for line in lines) == 8
    assert lines[-1] == "and 4 more"


def test_notes_and_failures_scroll_by_above_the_view() -> None:
    observer, console = screen(Clock())
    observer.note("sampler gp: [few] trials")
    end(observer, 0, 0.0, 0.0, Outcome.OUT_OF_MEMORY)
    end(observer, 1, 0.9, 3.0)
    end(observer, 2, 0.9, 3.0, Outcome.STOPPED)
    assert console.file.getvalue() == "sampler gp: [few] trials\ntrial 0 2: broken\n"  # type: ignore[attr-defined]


def test_what_the_persons_code_prints_meanwhile_does_not_mix_with_results(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(GOALS) as observer:
        print("epoch 1")
        observer.note("a note")
    print("a result")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("a result\n", "epoch 1\na note\n")


def test_a_terminal_gets_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with watching(GOALS) as observer:
        assert isinstance(observer, Logged)
        assert isinstance(observer.shown, Screen)
        observer.phase("search", "10 trials")
        observer.note("a note")
        print("the person's own line")
    shown = terminal.getvalue()
    assert "a note" in shown
    assert "the person's own line" in shown
    assert "search  \x1b[0m10 trials" in shown
