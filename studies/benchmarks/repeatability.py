"""Do two measurements of a plan agree?

One plan of a small encoder is measured twice against the present plan: on an idle machine, and beside two trials that
train; with pairs and lane as headtune measures, and without either, as the milliseconds of two runs in turn. Between
the two measurements the plan is built anew. Exits 0 where, with pairs and lane, the median disagreement of the ratios
is at most 3 % when idle and 5 % beside the trials.

    python studies/benchmarks/repeatability.py [--rounds 12] [--seconds 1.0]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
from lane import D_MODEL, encoder, inputs, training_trials  # type: ignore[import-not-found]
from torch import nn

import headtune
from headtune import HeadPlan, LatencyProtocol
from headtune.timing import Lane

PLAN = "*=16"
IDLE, TRIALS = "idle", "2 trials train"
PAIRED, PLAIN = "pairs and lane", "neither"
MOST = {IDLE: 0.03, TRIALS: 0.05}


def ratio_of(planned: nn.Module, present: nn.Module, protocol: LatencyProtocol, lane: Lane | None) -> float:
    """The plan's latency over the present one's: in pairs in the *lane*, or else by two runs."""
    if lane is not None:
        return headtune.measure(planned, inputs, protocol, reference=present, lane=lane).ratio
    ours, theirs = (headtune.measure(model, inputs, protocol).median_ms for model in (planned, present))
    return ours / theirs


def main() -> int:
    """Measure in rounds, print, and say whether it holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="pairs of measurements of each kind")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    asked = parser.parse_args()
    began, present = time.monotonic(), encoder().eval()
    plan = HeadPlan.parse(PLAN, headtune.sites(present, inputs(3, 32)), hold="width")
    protocol = LatencyProtocol(
        device="cpu", threads=1, batch_size=8, seq_len=32, max_seconds=asked.seconds, precision=0.01
    )
    kinds = [(state, way) for state in (IDLE, TRIALS) for way in (PAIRED, PLAIN)]
    ratios: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
    order = Random(0)
    with tempfile.TemporaryDirectory() as folder, training_trials(Path(folder)) as trials:
        trials.set_working(True)
        lane = Lane(Path(folder))
        for _ in range(asked.rounds):
            for state, way in order.sample(kinds, len(kinds)):
                trials.set_working(state == TRIALS)
                for _ in range(2):
                    planned = headtune.apply(present, plan, inputs(3, 32))
                    ratios[state, way].append(ratio_of(planned, present, protocol, lane if way == PAIRED else None))
    print(f"encoder of d_model {D_MODEL}, {PLAN} over the present plan; {asked.rounds} rounds; ", end="")
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{'':16} {'':16} {'ratio':>7}   two measurements disagree by (median, worst)")
    gaps = {}
    for state, way in kinds:
        found = np.array(ratios[state, way]).reshape(-1, 2)
        gaps[state, way] = np.abs(found[:, 0] / found[:, 1] - 1)
        middle, worst = median(gaps[state, way]), max(gaps[state, way])
        print(f"{state:16} {way:16} {median(ratios[state, way]):7.3f}   {middle:6.2%} {worst:8.2%}")
    holds = all(median(gaps[state, PAIRED]) <= most for state, most in MOST.items())
    print("holds" if holds else "does not hold", f"(median: {MOST[IDLE]:.0%} idle, {MOST[TRIALS]:.0%} beside trials)")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
