"""Random numbers that leave no trace."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import numpy as np
import torch
from torch import nn


@contextmanager
def isolated(model: nn.Module) -> Iterator[Callable[[int], None]]:
    """Run a block whose draws leave the random state of Python, NumPy, the CPU and the model's devices as it was.

    Yields:
        A function that seeds PyTorch's generators inside the block.
    """
    generators = [torch.default_generator, *_cuda_generators(model)]
    states = [generator.get_state() for generator in generators]
    python_state, numpy_state = random.getstate(), np.random.get_state()

    def seed_all(seed: int) -> None:
        for generator in generators:
            generator.manual_seed(seed)

    try:
        yield seed_all
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def rewind(generator: object) -> Callable[[], object] | None:
    """What puts a random generator back to where it is now; ``None`` for anything else."""
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, np.random.Generator):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return None


def seed_for(path: str, seed: int) -> int:
    """A seed of its own for the site at *path*, so that its fresh weights do not depend on the other sites' counts."""
    return int.from_bytes(sha256(f"{seed}:{path}".encode()).digest()[:7], "big")


def _cuda_generators(model: nn.Module) -> list[torch.Generator]:
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers()) if tensor.is_cuda}
    return [torch.cuda.default_generators[device.index] for device in sorted(devices, key=str)]
