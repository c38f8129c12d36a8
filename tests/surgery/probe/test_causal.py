import pytest
import torch

from headtune.surgery.probe.causal import blocked_by_bias, hides_the_future


def future(queries: int, keys: int | None = None, offset: int = 0) -> torch.Tensor:
    return torch.ones(queries, keys or queries, dtype=torch.bool).triu(1 + offset)


@pytest.mark.parametrize("shape", [(5, 5), (1, 1, 5, 5), (2, 4, 5, 5)])
def test_a_triangle_is_causal(shape: tuple[int, ...]) -> None:
    assert hides_the_future(future(5).expand(shape))


def test_padding_and_windows_do_not_hide_a_triangle() -> None:
    padded = future(5).repeat(2, 1, 1, 1)
    padded[1, ..., 3:] = True
    assert hides_the_future(padded)
    window = future(5) | torch.ones(5, 5, dtype=torch.bool).tril(-3)
    assert hides_the_future(window)


def test_keys_before_and_after_the_sequence_do_not_hide_a_triangle() -> None:
    cached = future(4, 9, offset=5)
    assert hides_the_future(cached)
    with_bias_key = torch.cat([future(4), torch.zeros(4, 2, dtype=torch.bool)], dim=1)
    assert hides_the_future(with_bias_key)


@pytest.mark.parametrize(
    "blocked",
    [
        None,
        torch.zeros(5, 5, dtype=torch.bool),
        torch.ones(5, 5, dtype=torch.bool).tril(-1),
        torch.ones(5, 5, dtype=torch.bool),
        future(5) & torch.rand(5, 5, generator=torch.Generator().manual_seed(0)).gt(0.5),
        torch.tensor([[False, True], [False, True]]),  # the second of two tokens is padding, not the future
        torch.zeros(1, 1, dtype=torch.bool),
        future(5, 3),
        torch.zeros(5, dtype=torch.bool),
        future(5).to("meta"),
    ],
    ids=["none", "open", "past", "all", "holes", "padding", "one token", "few keys", "1d", "meta"],
)
def test_anything_else_is_not(blocked: torch.Tensor | None) -> None:
    assert not hides_the_future(blocked)


def test_one_head_that_sees_the_future_makes_the_block_not_causal() -> None:
    blocked = future(5).repeat(1, 3, 1, 1)
    blocked[0, 2] = False
    assert not hides_the_future(blocked)


@pytest.mark.parametrize("least", [float("-inf"), -1e9, -1e4, torch.finfo(torch.float32).min])
def test_large_negative_numbers_block(least: float) -> None:
    assert torch.equal(blocked_by_bias(torch.zeros(3, 3).masked_fill(future(3), least)), future(3))


def test_ordinary_biases_do_not() -> None:
    assert not blocked_by_bias(torch.linspace(-1000, 50, 9).view(3, 3)).any()
