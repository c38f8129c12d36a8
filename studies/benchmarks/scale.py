"""What asking for the next plan costs in a large study: 96 attention sites with 8 choices each, 5,000 finished trials.

    python studies/benchmarks/scale.py [--trials N] [--asks N] [--file study.db] [--profile]

Qualities and latencies are made up, since only the engine's time and memory are measured: nothing is trained or timed.
All else is real: the study lies in an SQLite file, written as a search writes it, each trial with its learning curve
and a latency profile, a third of them stopped early. It is then opened as a search that goes on opens it, plans are
asked of the search's broker, each trial being run before the next is asked for, and the report is written. The file is
made in a temporary folder, which takes minutes; with `--file` it stays, and one that is there already is gone on with.
Exits with 0 where the median ask takes under 1 s and the process stays under 2 GB.
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
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import nn

import headtune
from headtune.heads import AttentionSite, HeadPlan, SearchSpace, baselines
from headtune.report import front_table, write_report
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.search.course import Course
from headtune.search.draft import Draft
from headtune.study import SearchOptions, StudySpec, read
from headtune.study.checking import Checked
from headtune.study.driver import open_ledger
from headtune.study.reading import checked_to_json
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.trial import Measurement, Outcome, Signal, Silent, TaskObject, TrialRecord, TrialResult

SITES, HEADS, HEAD_DIM, EPOCHS = 96, 8, 4, 12
LIMIT_MS = 21.0
LIMITS = ("latency_ms",)
MEDIAN_S, PEAK_MB = 1.0, 2000
MORE = 1000
ROWS = 30


def study(file: Path, trials: int) -> StudySpec:
    """The study, of which no more than the task's name is ever looked at."""
    task = headtune.Task(model=nn.Identity, inputs=lambda batch_size, seq_len: (), train=lambda model, run: None)
    return StudySpec(
        name="scale",
        task=TaskObject(task),
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


def found(spec: StudySpec) -> Checked:
    """What a check would find in a model of so many layers."""
    sites = tuple(
        AttentionSite(
            path=f"layers.{depth}.self_attn",
            role="self",
            embed_dim=HEADS * HEAD_DIM,
            num_heads=HEADS,
            num_kv_heads=HEADS,
            head_dim=HEAD_DIM,
        )
        for depth in range(SITES)
    )
    return Checked(
        sites=sites,
        space=SearchSpace.of(sites, spec.space),
        baselines=baselines(sites, spec.space),
        possibilities=(),
        locked=(),
        trains=True,
        parameters=0,
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
    """Let the study have *trials* finished trials of random plans, written as the broker writes those of so many."""
    course = Course(ledger.book(LIMITS), 0, EPOCHS, Silent())
    rng = Random(0)
    for number in range(len(course.ended), trials):
        plan = space.sample(rng)
        request = course.start(Draft(kind="search", plan=plan), seconds={"ask": 0.0})
        if number % 3 == 2:
            course.stop(request.number)
        Training(plan).run(course, request.number, stops=number % 3 == 2)


class Narrator(Silent):
    """Prints what the search has to say, and notes how long it chose the plan that it asked for last."""

    chosen_s = 0.0

    def note(self, message: str) -> None:
        """Print it."""
        print(message)

    def trial(self, record: TrialRecord) -> None:
        """Remember what its ask took before it was written down."""
        self.chosen_s = record.seconds.get("ask", self.chosen_s)


@contextmanager
def clocked(what: str) -> Iterator[None]:
    """Print how long what is inside takes, and the most memory that the process has had by then."""
    began = time.perf_counter()
    yield
    print(f"{what:32}{time.perf_counter() - began:>8.2f} s{peak_mb():>8.0f} MB at most by then", flush=True)


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def ask(broker: SearchBroker, narrator: Narrator, asks: int) -> list[tuple[float, float]]:
    """Seconds of each ask after the baselines, and those of it in which the plan was chosen; the rest is writing."""
    found: list[tuple[float, float]] = []
    while len(found) < asks:
        began = time.perf_counter()
        request = broker.propose()
        seconds = time.perf_counter() - began
        if isinstance(request, Signal):
            raise SystemExit(f"the search ended: {broker.ending}")
        if request.kind == "search":
            found.append((seconds, narrator.chosen_s))
        Training(request.plan).run(broker, request.number)
    return found


def measure(file: Path, trials: int, asks: int, profiler: cProfile.Profile | None) -> bool:
    """Print what each step takes; whether it is little enough."""
    spec, narrator = study(file, trials + MORE), Narrator()
    checked = found(spec)
    with open_ledger(spec) as ledger, clocked(f"{trials} trials written"):
        ledger.remember("checked", checked_to_json(checked))
        ledger.remember("limits", {"latency_ms": LIMIT_MS})
        fill(ledger, checked.space, trials)
    with ExitStack() as closing:
        with clocked("opened to go on"):
            ledger = closing.enter_context(open_ledger(spec))
            rules = SearchRules(limits=LIMITS, trials=spec.search.trials, epochs=EPOCHS)
            broker = SearchBroker(ledger, checked.space, rules, baselines=checked.baselines.plans, observer=narrator)
        with profiler or nullcontext(), clocked(f"{asks} plans asked for and run"):
            asked = ask(broker, narrator, asks)
    with clocked("read"):
        record = read(spec)
    with clocked("front"):
        front_table(record)
    with clocked("report written"):
        write_report(record, file.parent / "report")
    seconds, chosen = zip(*asked, strict=True)
    median, p90 = statistics.median(seconds), statistics.quantiles(seconds, n=10)[-1] if asks > 1 else seconds[0]
    print(
        f"ask: median {median:.3f} s, p90 {p90:.3f} s; of it choosing {statistics.median(chosen):.3f} s, else writing"
    )
    print(f"peak {peak_mb():.0f} MB")
    return median < MEDIAN_S and peak_mb() < PEAK_MB


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--asks", type=int, default=30)
    parser.add_argument("--file", type=Path, help="where the study lies, to be kept")
    parser.add_argument("--profile", action="store_true", help="show which functions the asks' time goes to")
    given = parser.parse_args()
    profiler = cProfile.Profile() if given.profile else None
    with tempfile.TemporaryDirectory() as folder:
        enough = measure(given.file or Path(folder) / "study.db", given.trials, given.asks, profiler)
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(ROWS)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
