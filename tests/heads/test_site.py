from dataclasses import FrozenInstanceError

import pytest

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite


def site(path: str = "encoder.layers.3.self_attn") -> AttentionSite:
    return AttentionSite(path=path, role="self", embed_dim=96, num_heads=8, num_kv_heads=2, head_dim=16)


def test_the_width_is_over_all_query_heads_and_may_differ_from_embed_dim() -> None:
    assert site().width == 128
    assert site().embed_dim == 96


def test_the_group_size_is_query_heads_per_key_value_head() -> None:
    assert site().group_size == 4


def test_present_is_the_count_of_today() -> None:
    assert site().present == HeadCount(8, 2, 16)


@pytest.mark.parametrize(
    ("path", "stack"),
    [
        ("encoder.layers.3.self_attn", "encoder.layers.*.self_attn"),
        ("blocks.0", "blocks.*"),
        ("0.attn", "*.attn"),
        ("stage1.blocks.11.attn2", "stage1.blocks.*.attn2"),
        ("attn", "attn"),
        ("", ""),
    ],
)
def test_the_stack_replaces_whole_numbers_in_the_path(path: str, stack: str) -> None:
    assert site(path).stack == (stack, "self")


def test_a_site_is_frozen_and_hashes() -> None:
    assert len({site(), site()}) == 1
    with pytest.raises(FrozenInstanceError):
        site().num_heads = 4  # type: ignore[misc]
