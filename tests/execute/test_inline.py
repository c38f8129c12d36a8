"""The inline executor: one trial after another, in this process."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headtune.execute import InlineExecutor
from headtune.study import StudySpec, search
from headtune.trial import Outcome, Silent, TrialRecord
from headtune.trial.contract import Progress


class Recorder(Silent):
    """Remembers the numbers of trials in the order of their news."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.seen: list[tuple[int, Outcome | None]] = []
        self._interrupt_at = interrupt_at

    def trial(self, record: TrialRecord) -> None:
        self.seen.append((record.number, record.outcome))
        if record.number == self._interrupt_at and record.curve:
            raise KeyboardInterrupt


def test_it_runs_one_trial_at_a_time() -> None:
    assert InlineExecutor().slots == 1
    assert InlineExecutor().call(divmod, 7, 3) == (2, 1)


def counting(to: int) -> Progress[int]:
    for number in range(to):
        yield str(number)
    return to


def test_what_a_long_job_yields_is_said() -> None:
    said: list[str] = []
    assert InlineExecutor().follow(counting, 3, say=said.append) == 3
    assert said == ["0", "1", "2"]


def test_trials_end_in_the_order_they_start(make_spec: Callable[..., StudySpec]) -> None:
    recorder = Recorder()
    search(make_spec(trials=5), recorder)
    assert [number for number, outcome in recorder.seen if outcome is not None] == [0, 1, 2, 3, 4]
    numbers = [number for number, _ in recorder.seen]
    assert numbers == sorted(numbers)


def test_an_interrupt_keeps_the_study_and_the_next_start_goes_on(make_spec: Callable[..., StudySpec]) -> None:
    spec = make_spec(trials=6)
    with pytest.raises(KeyboardInterrupt):
        search(spec, Recorder(interrupt_at=3))
    record = search(spec)
    assert [trial.outcome for trial in record.trials] == [Outcome.OK] * 6
    assert len({trial.plan for trial in record.trials}) == 6


def test_a_search_leaves_the_callers_random_numbers_as_they_were(make_spec: Callable[..., StudySpec]) -> None:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    search(make_spec(trials=2), Silent())
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    assert after == before
