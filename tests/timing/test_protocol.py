from dataclasses import replace

import pytest

from headtune.errors import InputError
from headtune.timing import LatencyProtocol


def test_is_a_value() -> None:
    assert LatencyProtocol(threads=2) == LatencyProtocol(threads=2)
    assert len({LatencyProtocol(), LatencyProtocol(), LatencyProtocol(dtype="bfloat16")}) == 2


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        LatencyProtocol(
            threads=0,
            dtype="float64",  # type: ignore[arg-type]
            batch_size=0,
            seq_len=-1,
            mode="decode",  # type: ignore[arg-type]
            min_samples=0,
            max_seconds=0.0,
            precision=-0.1,
        )
    assert caught.value.problems == (
        "LatencyProtocol.dtype is 'float64'; use float32 or float16 or bfloat16",
        "LatencyProtocol.mode is 'decode'; use forward",
        "LatencyProtocol.threads is 0; use 1 or more",
        "LatencyProtocol.batch_size is 0; use 1 or more",
        "LatencyProtocol.seq_len is -1; use 1 or more",
        "LatencyProtocol.min_samples is 0; use 1 or more",
        "LatencyProtocol.max_seconds is 0.0; use more than 0",
        "LatencyProtocol.precision is -0.1; use more than 0",
    )


def test_a_time_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"^LatencyProtocol\.max_seconds is nan; use more than 0$"):
        LatencyProtocol(max_seconds=float("nan"))


def test_a_replaced_value_is_checked_too() -> None:
    with pytest.raises(InputError, match=r"^LatencyProtocol\.threads is 0; use 1 or more$"):
        replace(LatencyProtocol(), threads=0)


def test_more_threads_than_any_machine_has_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        LatencyProtocol(threads=10_000)
    assert str(caught.value) == "LatencyProtocol.threads is 10000; use at most 1024"
