"""Does the lane keep trials from disturbing a measurement?

Blocks of timing one fixed plan: alone, beside two training trials with the lane, and beside the same ones without it.
Each round holds one block of each kind and a second one alone, in an order drawn anew. Ratios are taken within a
round, so that what else the machine does at that moment hits all of its blocks. Exits 0 where the lane holds: the 95 %
interval of the ratio of the p90s, beside trials to idle, lies within ±10 % widened by the interval of idle to idle.

    python studies/benchmarks/lane.py [--rounds 30] [--seconds 0.5]
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from headtune.timing import Lane, LatencyProtocol, measure, median_interval

D_MODEL, HEADS, LAYERS = 64, 4, 3
TRIALS = 2
TOLERANCE = 0.10
IDLE, IDLE_AGAIN, WITH_LANE, WITHOUT_LANE = "idle", "idle again", "2 trials, lane", "2 trials, no lane"
KINDS = (IDLE, IDLE_AGAIN, WITH_LANE, WITHOUT_LANE)

spawned = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of measuring, the steps of the trials meanwhile, and whether the wait for the lane was in vain."""

    median_ms: float
    p90_ms: float
    steps: int
    contended: bool


def encoder() -> nn.TransformerEncoder:
    """The model that is timed and trained."""
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, 2 * D_MODEL, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """A batch of random vectors."""
    return (torch.randn(batch_size, seq_len or 1, D_MODEL),)


def trial(folder: Path, at_work: Event, resting: Event, steps: "Synchronized[int]") -> None:
    """Train while *at_work*, in the lane and giving way as every trial does; never returns."""
    torch.set_num_threads(1)
    lane, model = Lane(folder), encoder()
    optimizer = torch.optim.AdamW(model.parameters())
    lane.attach(model)
    while True:
        at_work.wait()
        with lane.shared():
            while at_work.is_set():
                optimizer.zero_grad()
                model(*inputs(32, 32)).square().mean().backward()
                optimizer.step()
                steps.value += 1
        resting.set()


class Trials:
    """The training trials, which work or rest together."""

    def __init__(self, folder: Path) -> None:
        self._at_work = spawned.Event()
        self._resting = [spawned.Event() for _ in range(TRIALS)]
        self._steps = [spawned.Value("i", 0) for _ in range(TRIALS)]
        self._processes = [
            spawned.Process(target=trial, args=(folder, self._at_work, resting, steps), daemon=True)
            for resting, steps in zip(self._resting, self._steps, strict=True)
        ]
        for process in self._processes:
            process.start()

    @property
    def steps(self) -> list[int]:
        """Steps that each has taken so far."""
        return [steps.value for steps in self._steps]

    def set_working(self, working: bool) -> None:
        """Return once every trial really works or rests."""
        if working and not self._at_work.is_set():
            before = self.steps
            for resting in self._resting:
                resting.clear()
            self._at_work.set()
            while any(now == then for now, then in zip(self.steps, before, strict=True)):
                self._check_alive()
                time.sleep(0.005)
        if not working and self._at_work.is_set():
            self._at_work.clear()
            for resting in self._resting:
                resting.wait()

    def _check_alive(self) -> None:
        if not all(process.is_alive() for process in self._processes):
            sys.exit("a training trial died; its traceback is above")

    def end(self) -> None:
        """Kill them."""
        for process in self._processes:
            process.kill()


@contextmanager
def training_trials(folder: Path) -> Iterator[Trials]:
    """Trials that end with the block."""
    trials = Trials(folder)
    try:
        yield trials
    finally:
        trials.end()


def take_block(kind: str, model: nn.Module, protocol: LatencyProtocol, lane: Lane, trials: Trials) -> Block:
    """Measure once under the conditions of *kind*."""
    trials.set_working(kind in (WITH_LANE, WITHOUT_LANE))
    with nullcontext(False) if kind == WITHOUT_LANE else lane.exclusive() as contended:
        before = sum(trials.steps)
        profile = measure(model, inputs, protocol)
        steps = sum(trials.steps) - before
    return Block(median_ms=profile.median_ms, p90_ms=profile.p90_ms, steps=steps, contended=contended)


def take_blocks(rounds: int, seconds: float) -> dict[str, list[Block]]:
    """Blocks of each kind, one of each a round."""
    # A precision that is never reached: each block lasts its whole time.
    protocol = LatencyProtocol(
        device="cpu", threads=1, batch_size=4, seq_len=32, max_seconds=seconds, precision=1e-9, min_samples=1
    )
    order, model = random.Random(0), encoder()
    blocks: dict[str, list[Block]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, training_trials(Path(folder)) as trials:
        trials.set_working(True)  # so that their start is over before the first block
        for _ in range(rounds):
            for kind in order.sample(KINDS, len(KINDS)):
                blocks[kind].append(take_block(kind, model, protocol, Lane(Path(folder)), trials))
    return blocks


def p90_ratios(blocks: Sequence[Block], idle: Sequence[Block]) -> list[float]:
    """Of each block's p90 to that of its round's idle block."""
    return [block.p90_ms / quiet.p90_ms for block, quiet in zip(blocks, idle, strict=True)]


def row(kind: str, blocks: Sequence[Block], idle: Sequence[Block]) -> str:
    """One line of the table."""
    p50, p90 = median(block.median_ms for block in blocks), median(block.p90_ms for block in blocks)
    ratios = p90_ratios(blocks, idle)
    low, high = median_interval(ratios)
    steps, contended = sum(block.steps for block in blocks), sum(block.contended for block in blocks)
    ratio = " " * 20 if kind == IDLE else f"{median(ratios):5.2f} [{low:4.2f}, {high:4.2f}]"
    return f"{kind:18} {len(blocks):6} {p50:8.2f} {p90:8.2f}   {ratio} {steps:7} {contended:10}"


def main() -> int:
    """Take the blocks, print the table and the verdict; 0 where the lane holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each kind (at least 10)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a block")
    asked = parser.parse_args()
    if asked.rounds < 10:
        parser.error(f"--rounds is {asked.rounds}; fewer than 10 blocks tell nothing")
    began = time.monotonic()
    blocks = take_blocks(asked.rounds, asked.seconds)
    print(f"encoder of {LAYERS} layers, d_model {D_MODEL}, heads {'-'.join([str(HEADS)] * LAYERS)}, on one CPU thread")
    print(f"{'':18} {'blocks':>6} {'p50 ms':>8} {'p90 ms':>8}   {'p90 / idle, 95 %':20} {'steps':>7} {'contended':>10}")
    for kind in KINDS:
        print(row(kind, blocks[kind], blocks[IDLE]))
    noise_low, noise_high = median_interval(p90_ratios(blocks[IDLE_AGAIN], blocks[IDLE]))
    least, most = min(noise_low, 1) - TOLERANCE, max(noise_high, 1) + TOLERANCE
    low, high = median_interval(p90_ratios(blocks[WITH_LANE], blocks[IDLE]))
    holds = least <= low and high <= most
    print(
        f"with the lane [{low:.2f}, {high:.2f}] {'lies' if holds else 'does not lie'} within [{least:.2f}, {most:.2f}] "
        f"(±{TOLERANCE:.0%} widened by idle to idle): the lane {'holds' if holds else 'does not hold'}; "
        f"{time.monotonic() - began:.0f} s"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
