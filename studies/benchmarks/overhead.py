"""What headtune itself costs per trial, beside the same trainings under plain Ray Tune.

    python studies/benchmarks/overhead.py [TRIALS]

The task trains nothing: it builds a small Transformer, reports three times and returns, so that what is left is the
engine. Objectives are accuracy and parameters, so nothing is timed. Both sides run one trial at a time on warm
workers of one Ray session. Seconds per trial are of the steady state: from the start of the fourth trial to the end of
the last.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from ray import tune
from torch import nn

import headtune
from headtune.execute.ray_tune import RayExecutor
from headtune.heads import SpaceOptions
from headtune.pareto import Objective
from headtune.search import SamplerName
from headtune.study import SearchOptions, StudySpec, VerifyOptions, search
from headtune.trial import Run, Silent, TaskObject, TrialRecord

REPORTS = 3
WARM = 3
LAYERS, WIDTH = 4, 64


def build_model() -> nn.Module:
    """A small encoder."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS)


def example_inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    """Random features, shape (batch_size, 16, WIDTH)."""
    return (torch.randn(batch_size, 16, WIDTH),)


def train(model: nn.Module, run: Run) -> None:
    """Three reports of nothing."""
    for step in range(REPORTS):
        run.report(accuracy=step / REPORTS)


class Clock(Silent):
    """Notes when trials start and end."""

    def __init__(self) -> None:
        self.first_seen: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.asks: dict[int, float] = {}

    def trial(self, record: TrialRecord) -> None:
        """Remember the time of the first and the last news of a trial."""
        now = time.perf_counter()
        self.first_seen.setdefault(record.number, now)
        if record.outcome is not None:
            self.ended[record.number] = now
            if "ask" in record.seconds:
                self.asks[record.number] = record.seconds["ask"]

    def seconds_per_trial(self) -> float:
        """Of the steady state."""
        steady = sorted(self.ended)[WARM:]
        return (self.ended[steady[-1]] - self.first_seen[steady[0]]) / len(steady)


def headtune_seconds(trials: int, sampler: SamplerName) -> tuple[float, float]:
    """Seconds per trial, and the median seconds of an ask, under headtune."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        task = headtune.Task(model=build_model, inputs=example_inputs, train=train)
        spec = StudySpec(
            name=f"overhead-{sampler}",
            task=TaskObject(task),
            space=SpaceOptions(hold="width"),
            weights="fresh",
            objectives=(
                Objective(metric="accuracy", direction="maximize"),
                Objective(metric="parameters", direction="minimize"),
            ),
            search=SearchOptions(trials=trials, sampler=sampler, epochs=REPORTS, stop_early=False),
            verify=VerifyOptions(top=1, seeds=0),
            storage=f"sqlite:///{Path(folder) / 'study.db'}",
        )
        search(spec, clock)
    return clock.seconds_per_trial(), statistics.median(clock.asks.values())


def plain_seconds(trials: int) -> float:
    """Seconds per trial of the same function under ``ray.tune.Tuner``, its own loggers off."""

    def trainable(config: Mapping[str, Any]) -> None:
        began = time.time()
        torch.manual_seed(0)
        build_model()
        for step in range(REPORTS):
            tune.report({"accuracy": step / REPORTS, "began": began})

    with tempfile.TemporaryDirectory() as folder:
        results = tune.Tuner(
            tune.with_resources(trainable, {"cpu": 1}),
            param_space={"heads": tune.choice([1, 2, 4, 8])},
            tune_config=tune.TuneConfig(num_samples=trials, max_concurrent_trials=1, reuse_actors=True),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
    began: list[float] = sorted((results[index].metrics or {})["began"] for index in range(len(results)))
    steady = began[WARM:]
    return (steady[-1] - steady[0]) / (len(steady) - 1)


def main() -> None:
    """Print the table."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    executor = RayExecutor(concurrent=1)
    try:
        plain = plain_seconds(trials)
        rows = [(sampler, *headtune_seconds(trials, sampler)) for sampler in ("random", "gp")]
    finally:
        executor.close()
    print(f"{trials} trials, one at a time, {os.cpu_count()} cores")
    print(f"{'':24}{'s/trial':>10}{'above plain':>14}{'median ask, s':>16}")
    print(f"{'plain ray.tune.Tuner':24}{plain:>10.3f}{'':>14}{'':>16}")
    for sampler, seconds, ask in rows:
        print(f"{'headtune, ' + sampler:24}{seconds:>10.3f}{seconds - plain:>+14.3f}{ask:>16.4f}")


if __name__ == "__main__":
    main()
