"""Are wrong timings noticed?

Each is planted once: a model that goes into training mode, dropout that is always on, a forward that returns before
its work is done, a warm-up that ends too late, processes that take the cores; and a sound model beside them, which
must raise none of these. Prints what headtune says to each; exits 0 where every one is refused or flagged by a message
of its own.

    python studies/benchmarks/wrong_timings.py
"""

import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune import LatencyProtocol, measure
from headtune.errors import MeasurementError
from headtune.timing.conditions import cores

PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=4, max_seconds=1.0, precision=0.05)
WIDTH = 256


class Training(nn.Module):
    """Goes into training mode whenever it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        """(B, E)."""
        self.train()
        output: Tensor = self.dropout(self.layer(x))
        return output


class AlwaysDropping(nn.Linear):
    """Dropout that eval mode does not end."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, E)."""
        return F.dropout(super().forward(input))


class Unsynchronised(nn.Module):
    """Leaves its work to a thread, as a device's queue is left."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(600, 600))

    def forward(self, x: Tensor) -> Tensor:
        """(B, E)."""
        threading.Thread(target=lambda: [self.weight.detach() @ self.weight.detach() for _ in range(3)]).start()
        spin(1e-3)
        return x


class WarmingUp(nn.Module):
    """Gets faster with every pass, by less than half a percent: from 4 ms to 2 ms in some hundreds."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[int] = [0]

    def forward(self, x: Tensor) -> Tensor:
        """(B, E)."""
        self.passes[0] += 1
        spin(2e-3 * (1 + math.exp(-self.passes[0] / 120)))
        return x


def spin(seconds: float) -> None:
    """Be busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@contextmanager
def hogs() -> Iterator[None]:
    """Two busy processes for each core."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * cores())]
    time.sleep(0.5)
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random vectors."""
    return (torch.randn(batch_size, WIDTH),)


def said_of(model: nn.Module, *, beside_hogs: bool = False) -> list[str]:
    """What headtune says when it is asked to measure *model*."""
    with hogs() if beside_hogs else nullcontext():
        try:
            return list(measure(model, inputs, PROTOCOL).doubts)
        except MeasurementError as error:
            return list(error.problems)


def main() -> int:
    """Plant and look."""
    sound = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout())
    cases = {
        "training mode": (Training(), False, "goes into training mode in its forward pass"),
        "dropout always on": (AlwaysDropping(WIDTH, WIDTH), False, "draws random numbers in eval mode"),
        "no synchronisation": (Unsynchronised(), False, "more was computed than the clock saw"),
        "unsettled warm-up": (WarmingUp(), False, "still"),
        "processes on the cores": (sound, True, "other processes took the cores"),
    }
    noticed = []
    for name, (model, beside_hogs, message) in cases.items():
        said = said_of(model, beside_hogs=beside_hogs)
        noticed.append(any(message in one for one in said))
        print(f"{name}: {'noticed' if noticed[-1] else 'NOT NOTICED'}")
        print(*(f"    {one}" for one in said), sep="\n")
    quiet = said_of(sound)
    clean = not any(message in one for one in quiet for _, _, message in cases.values())
    print(f"a sound model: {'no such doubt' if clean else 'DOUBTED'}", *(f"\n    {one}" for one in quiet))
    return 0 if all(noticed) and clean else 1


if __name__ == "__main__":
    sys.exit(main())
