"""Trains every plan of a task on several seeds, and times each: a table on which searches can be compared in seconds.

    python studies/peers/record.py digits [--workers 2] [--minutes 30]

Writes ``tables/digits.csv``, a row for each training with its learning curve, and ``tables/digits_latency.csv``, a row
for each plan with its latency over the present plan's. Run again, it goes on where it stopped. It times plans when all
are trained: a machine that trains is no place for it.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import redirect_stderr
from functools import cache, partial
from io import StringIO
from math import inf
from multiprocessing import get_context

import torch
from tables import Timing, Training, add_timing, add_training, timings, trainings
from tasks import RECORDINGS
from torch import nn

import headtune
from headtune import HeadPlan, LatencyProtocol, Task

SECONDS = 3.0
"""Length of one plan's timing."""


@cache
def prepared(name: str) -> tuple[Task, dict[str, HeadPlan]]:
    """A task and its plans, made once a process."""
    torch.set_num_threads(1)
    task = RECORDINGS[name].task()
    return task, dict(RECORDINGS[name].plans(task))


def built(name: str, plan: str, seed: int) -> nn.Module:
    """A new model with a plan's counts."""
    task, plans = prepared(name)
    torch.manual_seed(seed)
    return headtune.apply(task.model(), plans[plan], task.inputs(2, None), copy=False)


def train(name: str, plan: str, seed: int) -> Training:
    """One training from the first step to the last."""
    (task, _), recording = prepared(name), RECORDINGS[name]
    assert task.train is not None
    assert task.evaluate is not None
    model, run = built(name, plan, seed), headtune.Run(epochs=recording.epochs, seed=seed, device="cpu")
    with redirect_stderr(StringIO()):  # where a run that is alone prints its reports
        task.train(model, run)
    metric = recording.quality.metric
    final = task.evaluate(model.eval())[metric]
    return Training(plan, seed, float(final), tuple(report[metric] for report in run.history))


def time_plan(name: str, plan: str) -> Timing:
    """A plan in pairs with the present one."""
    task, _ = prepared(name)
    protocol = LatencyProtocol(
        device="cpu", threads=1, batch_size=RECORDINGS[name].batch_size, max_seconds=SECONDS, precision=0.005
    )
    found = headtune.measure(built(name, plan, 0), task.inputs, protocol, reference=task.model())
    return Timing(plan, found.ratio, *found.ratio_interval)


def record_trainings(name: str, workers: int, deadline: float) -> bool:
    """Train what is missing, seed by seed; whether all of it is there now."""
    wanted = [(plan, seed) for seed in range(RECORDINGS[name].seeds) for plan in prepared(name)[1]]
    done = {(one.plan, one.seed) for one in trainings(name)}
    missing = [one for one in wanted if one not in done]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [partial(pool.submit, train, name, *one) for one in missing]
        for one in finished(jobs, workers, deadline):
            add_training(name, one)
            print(f"{one.plan}, seed {one.seed}: {one.final:.4g}", file=sys.stderr, flush=True)
    return len(trainings(name)) == len(wanted)


def finished(jobs: Sequence[Callable[[], "Future[Training]"]], workers: int, deadline: float) -> Iterator[Training]:
    """What comes of the jobs, as it comes; none is begun after the deadline."""
    rest, running = iter(jobs), set[Future[Training]]()
    while True:
        while len(running) < workers and time.monotonic() < deadline and (job := next(rest, None)) is not None:
            running.add(job())
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        yield from (one.result() for one in done)


def record_timings(name: str, deadline: float) -> bool:
    """Time what is missing; whether all of it is there now."""
    done = {one.plan for one in timings(name)}
    for plan in prepared(name)[1]:
        if plan not in done and time.monotonic() < deadline:
            add_timing(name, time_plan(name, plan))
            print(f"{plan} timed", file=sys.stderr, flush=True)
    return len(timings(name)) == len(prepared(name)[1])


def main() -> int:
    """Record; 0 when the table is whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=RECORDINGS)
    parser.add_argument("--workers", type=int, default=2, help="trainings at once, each on one thread")
    parser.add_argument("--minutes", type=float, default=inf, help="begin nothing after so many minutes")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends the workers too
    deadline = time.monotonic() + 60 * asked.minutes
    whole = record_trainings(asked.task, asked.workers, deadline) and record_timings(asked.task, deadline)
    print(f"{asked.task}: {'recorded' if whole else 'not yet whole; run the same command again'}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
