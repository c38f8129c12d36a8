"""Local attention beside dense attention under a mask that hides all but the band."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.nn.local import local_attention
from headtune.timing import LatencyProtocol, peak_memory_mb

B, H, D = 2, 4, 3


def drawn(length: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(length)
    q = torch.randn(B, H, length, D, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(B, kv_heads, length, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return q, k, v


def dense(
    q: Tensor, k: Tensor, v: Tensor, window: int, *, causal: bool, attn: Tensor | None = None, pad: Tensor | None = None
) -> Tensor:
    """Attention written out, with every score and a loop over the pairs that the window hides."""
    length, group = q.shape[2], H // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(D)
    hidden = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(length):
            hidden[i, j] = abs(i - j) >= window or (causal and j > i)
    scores = scores.masked_fill(hidden, -math.inf)
    if attn is not None:
        scores = scores + attn
    if pad is not None:
        scores = scores.masked_fill(pad[:, None, None, :], -math.inf)
    return scores.softmax(-1) @ v


CASES = [(length, window) for length in (1, 5, 12, 13) for window in (1, 2, 3, 4, 5, 12) if window <= length]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("length", "window"), CASES)
def test_equals_dense_attention_under_a_band(length: int, window: int, kv_heads: int, causal: bool) -> None:
    q, k, v = drawn(length, kv_heads)
    ours, theirs = local_attention(q, k, v, window, causal=causal), dense(q, k, v, window, causal=causal)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weights = torch.randn_like(ours)
    ours_grad, theirs_grad = (torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (ours, theirs))
    torch.testing.assert_close(ours_grad, theirs_grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["2-d", "3-d", "boolean", "padding", "padding and 2-d"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [2, 3, 4])
def test_masks_and_biases_count_within_the_band(window: int, causal: bool, kind: str) -> None:
    length = 11
    q, k, v = drawn(length, 2)
    attn: Tensor | None = None
    pad: Tensor | None = None
    if "2-d" in kind:
        attn = torch.randn(length, length, dtype=torch.float64, requires_grad=True)
    if kind == "3-d":
        attn = torch.randn(B * H, length, length, dtype=torch.float64)
    given = attn
    if kind == "boolean":
        given = torch.rand(length, length) < 0.3
        given.fill_diagonal_(False)
        attn = torch.zeros(length, length, dtype=torch.float64).masked_fill(given, -math.inf)
    if "padding" in kind:
        pad = torch.zeros(B, length, dtype=torch.bool)
        pad[0, 3] = pad[1, 0] = pad[1, 7] = True  # apart, so that every query sees something
        if causal:
            pad[1, 0] = False
    ours = local_attention(q, k, v, window, causal=causal, attn_mask=given, key_padding_mask=pad)
    shown = attn.view(B, H, length, length) if kind == "3-d" and attn is not None else attn
    theirs = dense(q, k, v, window, causal=causal, attn=shown, pad=pad)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    wanted = (q, k, v, attn) if attn is not None and attn.requires_grad else (q, k, v)
    ours_grad, theirs_grad = (torch.autograd.grad(out.square().sum(), wanted) for out in (ours, theirs))
    torch.testing.assert_close(ours_grad, theirs_grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [12, 13])  # whole blocks, and a block with queries beyond the end
def test_a_query_that_sees_nothing_is_what_dense_attention_makes_of_it(length: int) -> None:
    q, k, v = drawn(length, H)
    pad = torch.zeros(B, length, dtype=torch.bool)
    pad[0, 4:] = True
    ours = local_attention(q, k, v, 3, causal=False, key_padding_mask=pad)
    band = (torch.arange(length)[:, None] - torch.arange(length)).abs() < 3
    theirs = F.scaled_dot_product_attention(q, k, v, band & ~pad[:, None, None, :])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    seen = torch.autograd.grad(ours[1].sum() + ours[0, :, :6].sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in seen)


def test_dropout_drops_weights_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    q, k = (torch.randn(1, 1, 64, D) for _ in range(2))
    v = torch.ones(1, 1, 64, D)
    whole = local_attention(q, k, v, 8, causal=True)
    torch.testing.assert_close(whole, torch.ones_like(whole))
    draws = torch.stack([local_attention(q, k, v, 8, causal=True, dropout=0.5) for _ in range(400)])
    assert draws[0].std() > 0.1
    assert draws.mean() == pytest.approx(1, abs=0.03)


class Local(torch.nn.Module):
    """Local attention of what comes in to itself."""

    def forward(self, x_BHTD: Tensor) -> Tensor:
        return local_attention(x_BHTD, x_BHTD, x_BHTD, 32, causal=False)


def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    protocol = LatencyProtocol(device="cpu", threads=1)
    short, long = (peak_memory_mb(Local(), (torch.randn(1, 2, n, 16),), protocol) for n in (1024, 8192))
    assert long / short == pytest.approx(8, rel=0.1)
    assert long < 4 * 2 * 8192**2 / 10**6  # the scores alone of dense attention
