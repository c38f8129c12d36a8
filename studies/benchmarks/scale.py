"""What asking for the next plan costs in a large study: 96 attention sites with 8 choices each, 5,000 finished trials.

    python studies/benchmarks/scale.py [--trials N] [--asks N] [--file study.db] [--profile]

Qualities and latencies are made up, since only the engine's time and memory are measured: nothing is trained or timed.
All else is real: the sites are found in a model, and the study lies in an SQLite file, written as a search writes it,
each trial with its learning curve and a latency profile, a third of them stopped early. It is then opened as a search
that goes on opens it, plans are asked of the search's broker, each trial being run before the next is asked for, and
the report is written. The file is made in a temporary folder; with `--file` it stays, and one that is there already is
gone on with. Exits with 0 where the median ask takes under 1 s and the process stays under 2 GB.
"""

import argparse
import cProfile
import pstats
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

import headtune
from headtune.heads import HeadPlan, SearchSpace
from headtune.report import write_report
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.search.codec import Codec
from headtune.search.course import Course
from headtune.search.draft import Draft
from headtune.study import SearchOptions, StudySpec, check, read
from headtune.study.driver import open_ledger
from headtune.study.reading import checked_to_json
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.trial import Measurement, Outcome, Signal, Silent, TaskObject, TrialRequest, TrialResult

SITES, HEADS, HEAD_DIM, EPOCHS = 96, 8, 4, 12
LIMIT_MS = 21.0
MEDIAN_S, PEAK_MB = 1.0, 2000
MOST_ROWS = 25


class Deep(nn.Module):
    """Attention blocks in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(HEADS * HEAD_DIM, HEADS, batch_first=True) for _ in range(SITES)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        return x


def study(file: Path, trials: int) -> StudySpec:
    """The study, told as a person tells it."""

    def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
        return (torch.randn(batch_size, 4, HEADS * HEAD_DIM),)

    return StudySpec(
        name="scale",
        task=TaskObject(headtune.Task(model=Deep, inputs=inputs, train=lambda model, run: None)),
        space=headtune.SpaceOptions(hold="head_dim"),
        weights="fresh",
        objectives=(
            headtune.Objective(metric="val_accuracy", direction="maximize"),
            headtune.Objective(metric="latency_ms", direction="minimize"),
        ),
        limits=(headtune.Limit(metric="latency_ms", max=LIMIT_MS),),
        search=SearchOptions(trials=trials, epochs=EPOCHS),
        storage=f"sqlite:///{file}",
    )


@dataclass(frozen=True)
class Training:
    """A made-up training of a plan: deep sites gain more of heads than shallow ones."""

    plan: HeadPlan

    @property
    def quality(self) -> float:
        """Between 0 and 1."""
        gains = [(1 - 0.5**count.num_heads) * depth for depth, (_, count) in enumerate(self.plan, start=1)]
        return sum(gains) * 2 / SITES / (SITES + 1)

    @property
    def latency_ms(self) -> float:
        """A millisecond, and a 24th for each head."""
        return 1 + sum(count.num_heads for _, count in self.plan) / 24

    def measurement(self) -> Measurement:
        """With a profile as large as a real one."""
        ms, ratio = self.latency_ms, self.latency_ms / LIMIT_MS
        profile = LatencyProfile(
            protocol=LatencyProtocol(device="cpu", threads=1),
            median_ms=ms,
            p90_ms=ms * 1.1,
            interval_ms=(ms * 0.99, ms * 1.01),
            ratio=ratio,
            ratio_interval=(ratio * 0.99, ratio * 1.01),
            reference_median_ms=LIMIT_MS,
            samples=30,
            settled=True,
            contended=False,
            device_name="made up",
            versions={"torch": torch.__version__, "platform": sys.platform},
        )
        return Measurement(metrics={"latency_ms": ms}, latency=profile, violations={"latency_ms": ms - LIMIT_MS})

    def run(self, course: Course | SearchBroker, number: int, stops: bool = False) -> None:
        """From the measurement to the end."""
        course.measured(number, self.measurement())
        for step in range(1, (EPOCHS // 3 if stops else EPOCHS) + 1):
            if course.report(number, step, {"val_accuracy": self.quality * (1 - 0.5**step)}) is True:
                stops = True
                break
        outcome = Outcome.STOPPED if stops else Outcome.OK
        metrics = {} if stops else {"val_accuracy": self.quality}
        course.finish(number, TrialResult(outcome=outcome, message="", metrics=metrics, seconds={"train": 60.0}))


def fill(ledger: Ledger, space: SearchSpace, trials: int) -> None:
    """Let the study have *trials* finished trials of random plans."""
    codec = Codec(space, {})
    course = Course(ledger.book(("latency_ms",)), 0, EPOCHS, Silent())
    rng = Random(0)
    for number in range(len(course.ended), trials):
        plan = space.sample(rng)
        draft = Draft(kind="search", plan=plan)
        request = course.start(draft, *codec.readable(codec.encode(plan, {}) or {}), {"ask": 0.0})
        if number % 3 == 2:
            course.stop(request.number)
        Training(plan).run(course, request.number, stops=number % 3 == 2)
