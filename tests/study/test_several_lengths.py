"""A study of several sequence lengths, from its first pass to its report, against costs that are planted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import StudyChangedError
from headtune.heads import HeadPlan, Limit
from headtune.pareto import Objective
from headtune.report.documents import front_document, latency_document
from headtune.report.front_rows import front_table
from headtune.report.latency_plot import latency_picture
from headtune.report.page import render_page
from headtune.report.tables import front_frame, trials_frame
from headtune.study import StudyRecord, StudySpec, VerifyOptions, read, search
from headtune.study.driver import open_ledger
from headtune.timing import LatencyProtocol
from headtune.trial import Outcome, Task, TaskObject

MakeSpec = Callable[..., StudySpec]

QUALITY = Objective(metric="quality", direction="maximize")
AT_8, LONGEST = (Objective(metric=metric, direction="minimize") for metric in ("latency_ms@8", "latency_ms"))
BASE_MS, EACH_MS = 3.0, 0.01
LENGTHS = (8, 32)
WIDTH = 16


class Stopwatch:
    """A clock that is moved by hand, so that what a pass takes is known to the last digit."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self, call: Callable[[], object], calls: int) -> float:
        before = self.now_ms
        for _ in range(calls):
            call()
        return self.now_ms - before


class Planted(nn.Module):
    """Two blocks; a pass takes some time whatever the model, and some more for each head and position."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self.first = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.second = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.stopwatch = stopwatch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, WIDTH) → (B, T, WIDTH)."""
        self.stopwatch.now_ms += planted_ms(self.first.num_heads + self.second.num_heads, x.shape[1])
        for block in (self.first, self.second):
            x = x + block(x, x, x, need_weights=False)[0]
        return x


def planted_ms(heads: int, length: int) -> float:
    return BASE_MS + EACH_MS * heads * length


def truth(plan: HeadPlan, length: int) -> float:
    return planted_ms(sum(count.num_heads for _, count in plan), length)


@pytest.fixture
def spec(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> StudySpec:
    stopwatch = Stopwatch()
    monkeypatch.setattr("headtune.timing.latency.clock_of", lambda device: stopwatch)
    task = Task(
        model=lambda: Planted(stopwatch),
        inputs=lambda batch_size, seq_len: (torch.randn(batch_size, seq_len or 1, WIDTH),),
        train=lambda model, run: run.report(quality=float(model(torch.ones(1, 3, WIDTH)).mean().detach())),
    )
    return make_spec(
        task=TaskObject(task),
        trials=8,
        epochs=1,
        objectives=(QUALITY, AT_8, LONGEST),
        limits=(Limit(metric="latency_ms@8", max_ratio=1.4, of="present"),),
        latency=LatencyProtocol(batch_size=1, seq_len=LENGTHS, max_seconds=0.05, min_samples=6),
        verify=VerifyOptions(top=2, seeds=0),
    )


def assert_true(plan: HeadPlan, metrics: Any) -> None:
    assert metrics["latency_ms@8"] == pytest.approx(truth(plan, 8), rel=1e-9), plan.label
    assert metrics["latency_ms"] == pytest.approx(truth(plan, 32), rel=1e-9), plan.label


def test_each_length_has_its_own_true_value_from_the_first_trial_to_the_report(spec: StudySpec) -> None:
    record = search(spec)
    assert read(spec) == record, "all of it is kept"
    assert_searched(record)
    assert_written(record)
    assert_shown(record)
    with pytest.raises(StudyChangedError, match=r"latency.seq_len"):
        open_ledger(replace(spec, latency=replace(spec.latency, seq_len=(8, 16, 32))))


def assert_searched(record: StudyRecord) -> None:
    found = record.latency_range
    assert found is not None
    assert [timed.length for timed in found.by_length] == list(LENGTHS)
    for timed, length in zip(found.by_length, LENGTHS, strict=True):
        assert timed.reference_ms == pytest.approx(truth(record.present, length), rel=1e-9)
    assert record.limits == {"latency_ms@8": 1.4 * found.at(8).reference_ms}

    timed_trials = [trial for trial in record.trials if trial.latency is not None]
    assert len(timed_trials) >= 8
    for trial in timed_trials:
        assert trial.latency is not None
        assert trial.latency.protocol.seq_len == 32
        assert {length: profile.protocol.seq_len for length, profile in trial.shorter.items()} == {8: 8}
        assert_true(trial.plan, trial.metrics)
    for finalist in record.finalists:
        assert_true(finalist.plan, finalist.measured)
        assert set(finalist.shorter) == {8}
    largest = next(trial for trial in record.trials if trial.label == "largest")
    assert not largest.feasible, "1.5 times the present plan at length 8"
    assert largest.violations["latency_ms@8"] > 0
    assert all(trial.feasible for trial in record.trials if trial.outcome is Outcome.OK and trial.kind == "search")
    assert record.reference_point is not None
    assert len(record.reference_point) == 3


def assert_written(record: StudyRecord) -> None:
    found = record.latency_range
    assert found is not None
    documents: Any = latency_document(record)
    assert documents["reference_ms"] == found.reference_ms
    assert documents["shorter"]["8"]["reference_ms"] == found.at(8).reference_ms
    assert {set_["profile"]["protocol"]["seq_len"] for set_ in documents["trials"]} == {32}
    assert {set_["shorter"]["8"]["protocol"]["seq_len"] for set_ in documents["trials"]} == {8}
    front: Any = front_document(record)
    assert {"latency_ms@8", "latency_ms"} <= front["plans"][0]["measured"].keys()
    frame = trials_frame(record)
    first = record.trials[0]
    assert frame["latency:ratio@8"][0] == first.shorter[8].ratio
    assert first.latency is not None
    assert frame["latency:ratio"][0] == first.latency.ratio
    assert "verified_latency:ratio@8" in front_frame(record).columns


def assert_shown(record: StudyRecord) -> None:
    rows = front_table(record)
    row = rows[0]
    for metric in ("latency_ms@8", "latency_ms"):
        bounds, value = row.interval_ms(metric), row.value(metric)
        assert bounds is not None
        assert value is not None
        assert bounds[0] <= value <= bounds[1]
    picture = latency_picture(record)
    assert picture is not None
    assert [axes.get_xlabel() for axes in picture.figure.axes] == [
        f"←   latency at length {length} (ms)   lower is better" for length in LENGTHS
    ]
    assert "Latency at length 8 of the plans" in picture.alt
    assert "Latency at length 32 of the plans" in picture.alt
    (legend,) = picture.figure.legends
    assert [text.get_text().partition(" ms ")[2] for text in legend.get_texts()] == ["at length 8"]
    page = render_page(record, rows, {"latency": picture})
    for words in (
        "At sequence length 8",
        "At sequence length 32",
        "latency at length 8 (ms)",
        "interval, at length 32",
    ):
        assert words in page


def test_a_length_that_nothing_asks_for_is_not_timed(spec: StudySpec) -> None:
    short = search(replace(spec, objectives=(QUALITY, AT_8)))
    assert short.latency_range is not None
    assert [timed.length for timed in short.latency_range.by_length] == [8]
    assert all(set(trial.metrics) >= {"latency_ms@8"} and "latency_ms" not in trial.metrics for trial in short.trials)
    assert all(trial.shorter == {} for trial in short.trials)
