from types import SimpleNamespace

import pytest
from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import Handwritten
from headtune.surgery.original import Original

SITE = AttentionSite(path="", role="self", embed_dim=24, num_heads=4, num_kv_heads=4, head_dim=6)


class Block(nn.Module):
    def __init__(self, **attributes: object) -> None:
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def reason(wanted: tuple[int, int, int], site: AttentionSite = SITE, **attributes: object) -> str | None:
    return Handwritten().why_not_rehead(Block(**attributes), site, HeadCount(*wanted))


def test_an_attribute_for_heads_or_head_dim_is_enough() -> None:
    assert reason((2, 2, 12), num_heads=4) is None
    assert reason((2, 2, 12), head_dim=6) is None


def test_without_one_it_is_refused() -> None:
    assert reason((2, 2, 12), num_heads=5, dim=24) == (
        "Block has no attribute that holds its 4 heads or their 6 features; "
        "store them, as in self.num_heads, and let forward read them there"
    )


def test_another_grouping_needs_an_attribute_of_its_own() -> None:
    expected = (
        "Block has no attribute that holds its key/value heads; store them, as in self.num_kv_heads, and let forward "
        "repeat each for the heads that share it, or merge those of trained weights by merge_kv, which repeats them"
    )
    assert reason((4, 2, 6), num_heads=4) == expected
    assert reason((4, 2, 6), num_heads=4, num_kv_heads=4) is None
    assert reason((4, 2, 6), num_heads=4, n_rep=1) is None
    assert reason((2, 2, 6), num_heads=4) is None


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6)], ids=str)
def test_a_norm_over_head_dim_needs_that_head_dim(norm: nn.Module) -> None:
    assert reason((2, 2, 12), num_heads=4, q_norm=norm) == (
        "q_norm normalises over the 6 features of a head; hold head_dim instead"
    )
    assert reason((3, 3, 6), num_heads=4, q_norm=norm) is None
    assert reason((2, 2, 12), num_heads=4, norm=nn.LayerNorm(24)) is None
    one_head = AttentionSite(path="", role="self", embed_dim=24, num_heads=1, num_kv_heads=1, head_dim=24)
    assert reason((2, 2, 12), one_head, num_heads=1, norm=nn.LayerNorm(24)) is None, (
        "a norm over the input is no q norm"
    )


@pytest.mark.parametrize("name", ["rotary_dim", "rot_ndims_size", "rotary_ndims", "rope_rot_dim"])
def test_partly_rotated_heads_need_their_head_dim(name: str) -> None:
    attributes = {"num_heads": 4, name: 3}
    assert reason((2, 2, 12), **attributes) == (
        f"{name}=3 fixes how many of a head's features are rotated; hold head_dim instead"
    )
    assert reason((3, 3, 6), **attributes) is None


def test_resizing_changes_exactly_the_seen_projections(zoo: SimpleNamespace) -> None:
    model = zoo.build("child")
    original = Original(model, zoo.inputs())
    (site,) = original.sites
    Handwritten().resize(model, site, original.projections("attn"), HeadCount(3, 3, 5))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "attn.w_qs.weight": (15, 24),
        "attn.w_ks.weight": (15, 24),
        "attn.w_vs.weight": (15, 24),
        "dense.weight": (24, 15),
        "dense.bias": (24,),
    }
    assert (model.attn.n_head, model.attn.d_k) == (3, 5)
    assert model.attn.attention.temperature == pytest.approx(5**0.5)
