"""``HeadedAttention(window=...)`` beside ``nn.MultiheadAttention`` under a mask that hides all but the band."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import PlanError
from headtune.heads import HeadCount
from headtune.nn import HeadedAttention
from headtune.surgery.adapters.replacement import replacement

B, T, E, H, W = 2, 11, 24, 4, 3
CAUSAL = torch.ones(T, T, dtype=torch.bool).triu(1)
BAND = (torch.arange(T)[:, None] - torch.arange(T)).abs() >= W
PADDING = torch.zeros(B, T, dtype=torch.bool)
PADDING[1, -4:] = True


def pair(**options: bool) -> tuple[nn.MultiheadAttention, HeadedAttention]:
    torch.manual_seed(0)
    reference = nn.MultiheadAttention(E, H, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.normal_(0, 0.3)
    ours = replacement(reference, HeadCount(H, H, E // H))
    ours.window = W
    return reference, ours


GIVEN: dict[str, dict[str, object]] = {
    "plain": {},
    "causal": {"attn_mask": CAUSAL},
    "causal hint": {"attn_mask": CAUSAL, "is_causal": True},
    "padding": {"key_padding_mask": PADDING},
    "padding and causal": {"attn_mask": CAUSAL, "key_padding_mask": PADDING},
    "padding and causal hint": {"attn_mask": CAUSAL, "key_padding_mask": PADDING, "is_causal": True},
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_equals_multihead_attention_under_a_band(given: dict[str, object], batch_first: bool) -> None:
    reference, ours = pair(batch_first=batch_first)
    x = torch.randn(*((B, T) if batch_first else (T, B)), E, dtype=torch.float64)
    mask = BAND | CAUSAL if "attn_mask" in given else BAND
    padding = {"key_padding_mask": PADDING} if "key_padding_mask" in given else {}
    expected, _ = reference(x, x, x, attn_mask=mask, need_weights=False, **padding)
    got, weights = ours(x, x, x, need_weights=False, **given)
    assert weights is None
    # Queries that are themselves padding may see nothing: what they put out is no one's.
    real = ~PADDING if padding else torch.ones_like(PADDING)
    real = real if batch_first else real.T
    torch.testing.assert_close(got[real], expected[real], rtol=0, atol=1e-12)
    ours_grad = torch.autograd.grad(got[real].square().sum(), ours.out_proj.weight)
    theirs_grad = torch.autograd.grad(expected[real].square().sum(), reference.out_proj.weight)
    torch.testing.assert_close(ours_grad, theirs_grad, rtol=0, atol=1e-10)


def test_an_unbatched_sequence() -> None:
    reference, ours = pair()
    x = torch.randn(T, E, dtype=torch.float64)
    expected, _ = reference(x, x, x, attn_mask=BAND, need_weights=False)
    torch.testing.assert_close(ours(x, x, x, need_weights=False)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [T, T + 5])
def test_a_window_of_the_whole_sequence_hides_nothing(window: int) -> None:
    reference, ours = pair()
    ours.window = window
    x = torch.randn(T, B, E, dtype=torch.float64)
    expected, _ = reference(x, x, x, need_weights=False)
    torch.testing.assert_close(ours(x, x, x, need_weights=False)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("training", [False, True])
def test_it_works_inside_a_causal_encoder(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, H, 32, dropout=0.0, batch_first=True, dtype=torch.float64)
    dense = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    local = copy.deepcopy(dense)
    for one in local.layers:
        one.self_attn = replacement(one.self_attn, HeadCount(H, H, E // H))
        one.self_attn.window = W
    x = torch.randn(B, T, E, dtype=torch.float64)
    floats = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    got = local(x, mask=floats, src_key_padding_mask=PADDING)
    banded = torch.zeros(T, T, dtype=torch.float64).masked_fill(BAND | CAUSAL, float("-inf"))
    expected = dense(x, mask=banded, src_key_padding_mask=PADDING)
    torch.testing.assert_close(got[~PADDING], expected[~PADDING], rtol=0, atol=1e-12)


def test_what_a_window_does_not_do_is_refused() -> None:
    _, ours = pair(batch_first=True)
    x, y = (torch.randn(B, length, E, dtype=torch.float64) for length in (T, T + 1))
    with pytest.raises(RuntimeError) as refused:
        ours(x, x, x)
    assert str(refused.value) == (
        "HeadedAttention with window=3 computes no whole matrix of weights: call it with need_weights=False"
    )
    with pytest.raises(RuntimeError) as refused:
        ours(x, y, y, need_weights=False)
    assert str(refused.value) == (
        "HeadedAttention with window=3 attends within one sequence: got 11 queries and 12 keys; "
        "set window=None for cross attention"
    )
    with pytest.raises(PlanError) as wrong:
        HeadedAttention(E, H, window=0)
    assert str(wrong.value) == "HeadedAttention: window is 0; it must be at least 1"
    for option in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(PlanError) as wrong:
            HeadedAttention(E, H, window=W, **{option: True})
        assert str(wrong.value) == (
            f"HeadedAttention: {option} appends a key without a position; use no window with it"
        )


def test_the_window_stays_through_copies_and_surgery() -> None:
    module = HeadedAttention(E, H, batch_first=True, window=W)
    assert "window=3" in repr(module)
    assert "window" not in repr(HeadedAttention(E, H))
    assert copy.deepcopy(module).window == pickle.loads(pickle.dumps(module)).window == W
    assert replacement(module, HeadCount(2, 2, 6)).window == W


class Model(nn.Module):
    """One block with a window."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = HeadedAttention(E, H, batch_first=True, window=W, num_kv_heads=2)

    def forward(self, x: Tensor) -> Tensor:
        attended: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return x + attended


def test_a_model_with_windows_has_sites_that_a_plan_can_change() -> None:
    model, inputs = Model(), (torch.randn(B, T, E),)
    (site,) = headtune.sites(model, inputs)
    assert (site.path, site.num_heads, site.num_kv_heads, site.head_dim) == ("attention", H, 2, 6)
    plan = headtune.HeadPlan.parse("*=2/1", (site,), hold="head_dim")
    small = headtune.apply(model, plan, inputs)
    (after,) = headtune.sites(small, inputs)
    assert (after.num_heads, after.num_kv_heads, after.head_dim) == (2, 1, 6)
    assert small.attention.window == W
