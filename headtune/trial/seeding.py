"""Every random generator that a training may draw from."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators, CUDA's included."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Where the generators of :func:`seed_everything` stand now."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }


@contextmanager
def kept_rng_state() -> Iterator[None]:
    """Put the generators back, on leaving, to where they stood."""
    state = rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Put the generators back to where :func:`rng_state` found them.

    CUDA's are put back as far as the devices of then are there now.
    """
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    for device, cuda in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(cuda, device)
