import pytest
import torch
from torch import Tensor, nn

from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery import find_sites
from headtune.surgery.opening import opened, why_not_opened

X = torch.randn(2, 5, 24)


def sites_of(model: nn.Module) -> tuple[AttentionSite, ...]:
    return find_sites(model, (X,))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_an_opened_block_computes_the_same(options: dict[str, bool]) -> None:
    block = nn.MultiheadAttention(24, 4, batch_first=True, **options).eval()
    site = AttentionSite(path="", role="self", embed_dim=24, num_heads=4, num_kv_heads=4, head_dim=6)
    random = torch.get_rng_state()
    new = opened(block, [site])
    assert isinstance(new, HeadedAttention)
    assert torch.equal(torch.get_rng_state(), random)
    for one, other in zip(new(X, X, X), block(X, X, X), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_only_the_named_blocks_are_opened_and_the_model_stays_itself() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 16, batch_first=True), 2)
    assert opened(encoder, sites_of(encoder)[1:]) is encoder
    kinds = [type(layer.self_attn) for layer in encoder.layers]
    assert kinds == [nn.MultiheadAttention, HeadedAttention]


def test_other_blocks_are_open_as_they_are() -> None:
    block = HeadedAttention(24, 4, batch_first=True)
    site = AttentionSite(path="", role="self", embed_dim=24, num_heads=4, num_kv_heads=4, head_dim=6)
    assert opened(block, [site]) is block
    assert why_not_opened(block, site) is None


class Own(nn.MultiheadAttention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(query, key, value)[0] * 2


def test_blocks_that_a_replacement_would_change_are_refused_with_a_reason() -> None:
    site = AttentionSite(path="0", role="self", embed_dim=24, num_heads=4, num_kv_heads=4, head_dim=6)
    assert why_not_opened(nn.Sequential(nn.MultiheadAttention(24, 4)), site) is None
    assert why_not_opened(nn.Sequential(Own(24, 4)), site) == (
        "Own has a forward of its own, which a replacement would lose; "
        "use nn.MultiheadAttention itself, or headtune.nn.HeadedAttention"
    )
    tied = nn.Sequential(nn.MultiheadAttention(24, 4), nn.MultiheadAttention(24, 4))
    tied[1].in_proj_weight = tied[0].in_proj_weight
    assert (
        why_not_opened(tied, site) == "0.in_proj_weight is also 1.in_proj_weight: untie them first, or change neither"
    )
