import random

import numpy as np
import pytest
import torch

from headtune.trial.seeding import rng_state, seed_everything, set_rng_state


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_a_seed_fixes_every_generator() -> None:
    seed_everything(7)
    first = draws()
    expected = (random.Random(7).random(), np.random.RandomState(7).random())
    assert first[:2] == expected
    assert first[2] == float(torch.rand((), generator=torch.Generator().manual_seed(7)))


def test_other_seeds_give_other_draws() -> None:
    seed_everything(7)
    first = draws()
    seed_everything(8)
    assert all(a != b for a, b in zip(first, draws(), strict=True))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**32, 2**63 - 1])
def test_seeds_wider_than_numpys_are_taken(seed: int) -> None:
    seed_everything(seed)
    first = draws()
    seed_everything(seed)
    assert draws() == first


def test_a_state_puts_every_generator_back() -> None:
    seed_everything(3)
    draws()
    state = rng_state()
    first = draws()
    seed_everything(99)
    set_rng_state(state)
    assert draws() == first


def test_keeping_a_state_draws_nothing() -> None:
    seed_everything(3)
    first = draws()
    seed_everything(3)
    rng_state()
    assert draws() == first


@pytest.mark.gpu
def test_a_state_puts_cuda_back() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    seed_everything(3)
    torch.rand(4, device="cuda")
    state = rng_state()
    first = torch.rand(4, device="cuda")
    set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), first)
