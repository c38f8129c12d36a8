import pytest

from headtune.heads.count import HeadCount
from headtune.surgery.adapters.names import is_short, meant, names_a_quantity, quantities, spells_out_heads

COUNT = HeadCount(8, 2, 16)  # group size 4, width 128, kv width 32: six different numbers

HEADS = "n_head n_heads num_heads num_head nhead heads n_attn_heads num_attention_heads num_query_heads h _num_heads"
KV_HEADS = (
    "n_kv_head n_kv_heads num_kv_heads num_key_value_heads n_local_kv_heads kv_heads num_query_groups n_kv num_heads_kv"
)
GROUP_SIZE = "n_rep num_key_value_groups q_per_kv num_queries_per_kv heads_per_group group_size n_repeats"
HEAD_DIM = (
    "head_dim dim_head d_head d_k d_v dk head_size attention_head_size dim_per_head d_kv hs size_per_head key_dim"
    " key_value_proj_dim"
)
WIDTH = "inner_dim all_head_size attn_dim d_attn dim_inner q_size proj_dim internal_dim"
KV_WIDTH = "kv_dim kv_size dim_kv k_size"
OTHERS = (
    "dim embed_dim n_embd d_model hidden_size block_size n_layer depth layers max_len kernel_size head_bias "
    "width height in_features num_classes attention ahead heading window_size"
)


@pytest.mark.parametrize(
    ("names", "quantity"),
    [
        (HEADS, "heads"),
        (KV_HEADS, "kv_heads"),
        (GROUP_SIZE, "group_size"),
        (HEAD_DIM, "head_dim"),
        (WIDTH, "width"),
        (KV_WIDTH, "kv_width"),
    ],
)
def test_the_usual_names_are_known_and_believed_only_at_their_value(names: str, quantity: str) -> None:
    for name in names.split():
        assert meant(name, quantities(COUNT)[quantity], COUNT) == quantity, name
        assert meant(name, 999, COUNT) is None, name


def test_groups_may_be_either_and_the_value_decides() -> None:
    assert meant("n_groups", 2, COUNT) == "kv_heads"
    assert meant("n_groups", 4, COUNT) == "group_size"
    assert meant("groups", 8, HeadCount(8, 8, 16)) is None, "without grouped heads, groups are something else's"


@pytest.mark.parametrize(
    "name",
    [*OTHERS.split(), "dim_feedforward"],
)
def test_names_of_other_things_mean_nothing_at_any_value(name: str) -> None:
    assert all(meant(name, value, COUNT) is None for value in quantities(COUNT).values())


def test_short_names_are_told_apart() -> None:
    assert [name for name in ("h", "H", "nh", "_h", "head", "heads", "n_head") if is_short(name)] == [
        "h",
        "H",
        "nh",
        "_h",
        "head",
    ]
    assert [
        name for name in ("h", "nh", "head", "heads", "n_head", "_num_heads", "kv_heads") if spells_out_heads(name)
    ] == [
        "heads",
        "n_head",
        "_num_heads",
    ]


def test_quantities_follow_from_the_count() -> None:
    assert quantities(COUNT) == {
        "heads": 8,
        "kv_heads": 2,
        "group_size": 4,
        "head_dim": 16,
        "width": 128,
        "kv_width": 32,
    }


def test_names_alone_tell_what_may_be_a_count() -> None:
    assert all(map(names_a_quantity, ("num_heads", "n_head", "kv_heads", "n_rep", "head_dim", "_inner_dim", "h")))
    assert not any(map(names_a_quantity, ("num_layers", "dropout", "in_features", "headroom")))
