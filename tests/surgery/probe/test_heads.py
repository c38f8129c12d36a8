import pytest
import torch

from headtune.surgery.probe.heads import count_distinct, count_einsum_heads, count_heads, splits_evenly
from headtune.surgery.probe.operations import Product

B, T, S, H, D = 3, 7, 5, 8, 6
SHAPES = {
    "BHTD": (B, H, T, D),
    "HBTD": (H, B, T, D),
    "merged": (B * H, T, D),
    "grouped": (B, 2, H // 2, T, D),
    "windows": (B * 4, H, T, D),
}


@pytest.mark.parametrize("layout", SHAPES)
def test_heads_are_counted_in_every_layout(layout: str) -> None:
    """The projection put out ``positions`` vectors of H*D features, wherever its heads went since."""
    q = torch.zeros(SHAPES[layout])
    assert count_heads(q, D, positions=q.numel() // (H * D)) == H


@pytest.mark.parametrize(("shape", "heads"), [((B, H, T, D), H), ((B, T, D), 1), ((T, D), 1), ((B, 2, 4, T, D), 8)])
def test_without_a_projection_the_usual_layout_is_believed(shape: tuple[int, ...], heads: int) -> None:
    assert count_heads(torch.zeros(shape), D, positions=0) == heads


def test_a_sequence_that_was_cut_or_repeated_does_not_mislead() -> None:
    last_query = torch.zeros(B, H, 1, D)
    assert count_heads(last_query, D, positions=B * T) == H
    assert count_heads(torch.zeros(B, 1, T, D), D, positions=B * T) == 1
    assert count_heads(torch.zeros(B, T, D), D, positions=B * T) == 1


def test_all_sizes_equal_is_still_right() -> None:
    assert count_heads(torch.zeros(4, 4, 4, 4), 4, positions=16) == 4


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("bhid,bhjd->bhij", (B, H, T, D), (B, H, S, D)),
        ("bqhd,bkhd->bhqk", (B, T, H, D), (B, S, H, D)),
        ("ibnd,jbnd->ijbn", (T, B, H, D), (S, B, H, D)),
        ("bkgqd,bksd->bkgqs", (B, 2, 4, T, D), (B, 2, S, D)),
        ("nid,njd->nij", (B * H, T, D), (B * H, S, D)),
    ],
)
def test_einsums_are_read_by_their_letters(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    product = Product(left=torch.zeros(left), right=torch.zeros(right), equation=equation)
    assert count_einsum_heads(product, equation, positions=B * T) == (H, D)


def test_an_einsum_without_a_known_projection_takes_the_last_batched_letter() -> None:
    product = Product(left=torch.zeros(B, T, H, D), right=torch.zeros(B, S, H, D), equation="bqhd,bkhd->bhqk")
    assert count_einsum_heads(product, "bqhd,bkhd->bhqk", positions=0) == (H, D)


@pytest.mark.parametrize("equation", ["...hid,...hjd->...hij", "id,jd->ij", "bi,bj->bij"])
def test_einsums_that_show_no_heads_are_left(equation: str) -> None:
    product = Product(left=torch.zeros(B, D), right=torch.zeros(B, D), equation=equation)
    assert count_einsum_heads(product, equation, positions=0) is None


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("order", ["interleaved", "tiled"])
@pytest.mark.parametrize("transposed", [True, False])
def test_repeated_keys_are_counted_once(kv_heads: int, order: str, transposed: bool) -> None:
    k = torch.randn(B, kv_heads, S, D, generator=torch.Generator().manual_seed(kv_heads))
    group = H // kv_heads
    repeated = k.repeat_interleave(group, dim=1) if order == "interleaved" else k.repeat(1, group, 1, 1)
    assert count_distinct(repeated.transpose(-2, -1) if transposed else repeated, H) == kv_heads


def test_whole_heads_are_told_from_sums_over_the_sequence() -> None:
    features = torch.zeros(B, H, T, D)
    assert splits_evenly(features, D, positions=B * T)
    assert not splits_evenly(features.mT, T, positions=B * T)
    assert splits_evenly(features.mT, T, positions=0)


def test_keys_that_cannot_be_compared_count_by_shape() -> None:
    assert count_distinct(torch.zeros(B, 2, S, D, device="meta"), H) == 2
    assert count_distinct(torch.zeros(B, 1, S, D), H) == 1
    assert count_distinct(torch.zeros(B * H, S, D), H) == H
