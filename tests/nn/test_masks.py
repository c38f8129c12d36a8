import pytest
import torch

from headtune.nn.masks import additive, merge, per_head

INF = float("inf")


def test_a_boolean_mask_blocks_where_it_is_true() -> None:
    bias = additive(torch.tensor([[True, False]]), torch.float64)
    assert bias.dtype == torch.float64
    assert bias.tolist() == [[-INF, 0.0]]


def test_a_float_mask_is_added_as_it_is() -> None:
    mask = torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    assert torch.equal(additive(mask, torch.float32), mask.float())


def test_an_integer_mask_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^an attention mask is boolean or floating point, not torch\.int64$"):
        additive(torch.ones(2, 2, dtype=torch.int64), torch.float32)


def test_a_3d_mask_is_one_row_per_item_and_head() -> None:
    mask = torch.arange(2 * 3 * 4 * 5.0).view(6, 4, 5)
    shaped = per_head(mask, batch=2, num_heads=3)
    assert shaped.shape == (2, 3, 4, 5)
    assert torch.equal(shaped[1, 2], mask[5])


def test_a_3d_mask_for_another_head_count_is_refused() -> None:
    with pytest.raises(RuntimeError) as caught:
        per_head(torch.zeros(8, 4, 4), batch=2, num_heads=3)
    assert str(caught.value) == (
        "a 3-D attn_mask has one row per batch item and head: got 8 rows for 2 items and 3 heads; "
        "make it from the module's num_heads"
    )


def test_nothing_masked_is_no_bias() -> None:
    assert merge(None, None, batch=2, num_heads=3, extra=1, dtype=torch.float32) is None


def test_merging_adds_both_masks_and_leaves_appended_keys_open() -> None:
    causal = torch.ones(2, 2, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False], [True, False]])
    bias = merge(causal, padding, batch=2, num_heads=1, extra=1, dtype=torch.float32)
    assert bias is not None
    assert bias.expand(2, 1, 2, 3)[:, 0].tolist() == [
        [[0.0, -INF, 0.0], [0.0, 0.0, 0.0]],
        [[-INF, -INF, 0.0], [-INF, 0.0, 0.0]],
    ]
