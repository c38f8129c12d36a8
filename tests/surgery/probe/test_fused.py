import pytest
import torch
from torch import Tensor

from headtune.surgery.probe.flow import Flow
from headtune.surgery.probe.fused import Fused, read_multi_head, read_sdpa

B, T, S, H, D = 2, 7, 7, 4, 6
Q, K, V = torch.randn(B, H, T, D), torch.randn(B, 2, S, D), torch.randn(B, 2, S, D)
X, Y = torch.randn(T, B, H * D), torch.randn(S, B, H * D)
FUTURE = torch.ones(T, S, dtype=torch.bool).triu(1)


def no_flow(tensor: Tensor) -> Flow:
    return Flow()


def sdpa(*args: object, **kwargs: object) -> Fused:
    fused = read_sdpa(args, kwargs, no_flow)
    assert fused is not None
    return fused


def test_sdpa_shows_its_shapes() -> None:
    scores = sdpa(Q, K, V, enable_gqa=True).scores
    assert (scores.num_heads, scores.num_kv_heads, scores.head_dim) == (H, 2, D)
    assert scores.scale == pytest.approx(D**-0.5)
    assert scores.two_inputs is False
    assert sdpa(query=Q, key=K[:, :, :3], value=V[:, :, :3]).scores.two_inputs is True


def test_sdpa_shows_the_whole_scale() -> None:
    def flow(tensor: Tensor) -> Flow:
        return Flow(scale=3.0) if tensor is Q else Flow(scale=0.5)

    fused = read_sdpa((Q, K, V), {"scale": 2.0}, flow)
    assert fused is not None
    assert fused.scores.scale == 3.0


@pytest.mark.parametrize(
    ("given", "causal"),
    [
        ({}, False),
        ({"is_causal": True}, True),
        ({"attn_mask": ~FUTURE}, True),
        ({"attn_mask": FUTURE}, False),
        ({"attn_mask": torch.zeros(T, S).masked_fill(FUTURE, -torch.inf)}, True),
        ({"attn_mask": torch.randn(T, S)}, False),
    ],
    ids=["open", "flag", "allowed", "blocked", "bias", "noise"],
)
def test_sdpa_is_causal_by_flag_or_mask(given: dict[str, object], causal: bool) -> None:
    assert sdpa(Q, K, V, **given).causal is causal


def multi_head(query: Tensor, key: Tensor, **kwargs: object) -> Fused:
    fused = read_multi_head((query, key, key, H * D, H), kwargs)
    assert fused is not None
    return fused


@pytest.mark.parametrize(
    ("given", "causal"),
    [
        ({}, False),
        ({"is_causal": True}, True),
        ({"attn_mask": FUTURE}, True),
        ({"attn_mask": ~FUTURE}, False),
        ({"attn_mask": torch.zeros(T, S).masked_fill(FUTURE, -torch.inf)}, True),
    ],
    ids=["open", "flag", "blocked", "allowed", "bias"],
)
def test_a_boolean_mask_of_multi_head_attention_blocks_where_it_is_true(given: dict[str, object], causal: bool) -> None:
    assert multi_head(X, X, **given).causal is causal


def test_multi_head_attention_shows_its_heads_and_inputs() -> None:
    scores = multi_head(X, Y).scores
    assert (scores.num_heads, scores.num_kv_heads, scores.head_dim, scores.two_inputs) == (H, H, D, True)
    assert multi_head(X, X.clone()).scores.two_inputs is False


def test_calls_that_are_not_understood_are_left() -> None:
    assert read_sdpa((Q, K), {}, no_flow) is None
    assert read_multi_head((X, X, X, H * D), {}) is None
