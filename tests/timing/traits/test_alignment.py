"""Which head dimensions fit a device."""

import pytest
import torch

from headtune.heads import HeadCount, HeadPlan
from headtune.timing import LatencyProtocol, resolve
from headtune.timing.protocol import Half
from headtune.timing.traits import unaligned, wanted_multiples

HALVES: tuple[Half, Half] = ("float16", "bfloat16")
PLAN = HeadPlan.of({"a": HeadCount(1, 1, 12), "b": HeadCount(1, 1, 32), "c": HeadCount(1, 1, 128)})


def test_the_least_multiple_that_is_missed() -> None:
    assert unaligned(PLAN, (8,)) == {"a": 8}
    assert unaligned(PLAN, (8, 64)) == {"a": 8, "b": 64}
    assert unaligned(HeadPlan.of({"c": HeadCount(2, 1, 64)}), (8, 64)) == {}


def test_the_cpu_has_no_tensor_cores() -> None:
    assert wanted_multiples(LatencyProtocol(device="cpu", dtype="bfloat16")) == (8,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_tensor_cores_by_dtype() -> None:
    major, _ = torch.cuda.get_device_capability()
    half, brain = (resolve(LatencyProtocol(device="cuda", dtype=dtype), 1) for dtype in HALVES)
    assert wanted_multiples(half) == ((8, 64) if major >= 7 else (8,))
    assert wanted_multiples(brain) == ((8, 64) if major >= 8 else (8,))
