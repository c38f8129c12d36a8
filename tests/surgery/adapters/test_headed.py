import torch
from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.adapters import Headed
from headtune.surgery.original import Original
from headtune.surgery.probe import Projections

X = torch.randn(5, 2, 24)


def test_all_three_counts_are_set() -> None:
    model = HeadedAttention(24, 6, head_dim=4, num_kv_heads=2)
    (site,) = Original(model, (X, X, X)).sites
    Headed().rehead(model, site, HeadCount(12, 4, 2))
    assert (model.num_heads, model.num_kv_heads, model.head_dim) == (12, 4, 2)
    assert [tuple(s.present) for s in find_sites(model, (X, X, X))] == [(12, 4, 2)]


def test_plans_can_follow_each_other_across_kinds_of_blocks() -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, dropout=0.0)
    model = layer
    for count in ((3, 3, 6), (6, 3, 3), (6, 1, 3), (5, 5, 7), (4, 4, 6)):
        plan = HeadPlan.of({"self_attn": HeadCount(*count)})
        model = apply_plan(model, plan, (X,), hold="head_dim")
        assert [tuple(s.present) for s in find_sites(model, (X,))] == [count]
    assert isinstance(model.self_attn, HeadedAttention), "a replacement is not turned back"
    assert isinstance(layer.self_attn, nn.MultiheadAttention)


def test_reheading_keeps_every_tensor() -> None:
    model = HeadedAttention(24, 4, head_dim=9, num_kv_heads=2)
    edited = apply_plan(model, HeadPlan.of({"": HeadCount(12, 6, 3)}), (X, X, X), hold="width")
    truth = HeadedAttention(24, 12, head_dim=3, num_kv_heads=6)
    truth.load_state_dict(model.state_dict())
    assert torch.equal(edited(X, X, X)[0], truth(X, X, X)[0])


def test_parametrized_and_tied_weights_are_refused() -> None:
    model = HeadedAttention(24, 4)
    (site,) = Original(model, (X, X, X)).sites
    model.k_proj.weight = model.q_proj.weight
    wanted = HeadCount(3, 3, 6)
    assert Headed().why_not_resize(model, site, Projections(), wanted) == (
        "q_proj.weight is also k_proj.weight: untie them first, or change neither"
    )
    other = HeadedAttention(24, 4)
    nn.utils.parametrizations.weight_norm(other.q_proj)
    assert Headed().why_not_resize(other, site, Projections(), wanted) == (
        "its weights are parametrized; call torch.nn.utils.parametrize.remove_parametrizations first"
    )
