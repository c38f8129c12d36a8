import pickle
import random

import numpy as np
import pytest
import torch
from torch import nn

from headtune.surgery.rng import isolated, seed_for

MODEL = nn.Linear(2, 2)


def states() -> tuple[bytes, object, bytes]:
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), pickle.dumps(np.random.get_state())


def draw() -> tuple[float, float, float]:
    return float(torch.rand(1)), random.random(), float(np.random.rand())


def test_draws_inside_leave_every_generator_where_it_was() -> None:
    before = states()
    with isolated(MODEL) as seed_all:
        draw()
        seed_all(3)
        draw()
    assert states() == before


def test_an_error_inside_leaves_them_too() -> None:
    def fail() -> None:
        with isolated(MODEL):
            draw()
            raise RuntimeError("stop")

    before = states()
    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert states() == before


def test_without_a_seed_the_block_continues_the_outer_stream() -> None:
    torch.manual_seed(5)
    expected = float(torch.rand(1))
    torch.manual_seed(5)
    with isolated(MODEL):
        assert float(torch.rand(1)) == expected
    assert float(torch.rand(1)) == expected


def test_seeding_inside_is_the_same_as_seeding_a_generator() -> None:
    with isolated(MODEL) as seed_all:
        seed_all(11)
        inside = torch.rand(4)
    assert torch.equal(inside, torch.rand(4, generator=torch.Generator().manual_seed(11)))


def test_seeds_differ_by_path_and_by_seed_and_stay_the_same() -> None:
    seeds = {(path, seed): seed_for(path, seed) for path in ("", "a", "b", "a.b") for seed in (0, 1, 10)}
    assert len(set(seeds.values())) == len(seeds)
    assert seed_for("layers.0.attn", 0) == 57865758874077032, "fresh weights of saved studies would move"
    assert all(0 <= seed < 2**56 for seed in seeds.values())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_generator_of_the_models_gpu_is_kept_too() -> None:
    before = torch.cuda.get_rng_state()
    with isolated(nn.Linear(2, 2, device="cuda")) as seed_all:
        seed_all(1)
        torch.rand(3, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
