import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.heads.count import HeadCount
from headtune.heads.heuristic import mixed_rule, rule_heads, rule_of_thumb
from headtune.heads.legal import legal_heads
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold, Role


def site(path: str, embed_dim: int, num_heads: int, num_kv_heads: int = 0, role: Role = "self") -> AttentionSite:
    return AttentionSite(
        path=path,
        role=role,
        embed_dim=embed_dim,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads or num_heads,
        head_dim=embed_dim // num_heads,
    )


def heads(plan: HeadPlan) -> list[int]:
    return [count.num_heads for _, count in plan]


@pytest.mark.parametrize(
    ("d_model", "rule"),
    [(1, 1), (32, 1), (64, 1), (95, 1), (96, 2), (128, 2), (147, 2), (160, 2), (192, 3), (384, 6), (512, 8), (768, 8)],
)
def test_the_rule_of_thumb(d_model: int, rule: int) -> None:
    assert rule_heads(d_model) == rule


@pytest.mark.parametrize(
    ("embed_dim", "present", "expected"),
    [
        (64, 8, 1),
        (384, 12, 6),
        (147, 7, 1),  # the rule says 2; 1 and 3 are equally near, the smaller is taken
        (320, 5, 5),
        (448, 8, 7),
        (308, 4, 4),  # the rule says 5; of 1, 2, 4, 7, … 4 is nearest
        (768, 12, 8),
    ],
)
def test_under_hold_width_the_rule_snaps_to_the_nearest_divisor(embed_dim: int, present: int, expected: int) -> None:
    assert heads(rule_of_thumb([site("a", embed_dim, present)], "width")) == [expected]


@pytest.mark.parametrize(("embed_dim", "present", "expected"), [(512, 16, 8), (512, 4, 4), (384, 12, 6), (147, 7, 2)])
def test_under_hold_head_dim_the_rule_is_the_smaller_of_present_and_rule(
    embed_dim: int, present: int, expected: int
) -> None:
    assert heads(rule_of_thumb([site("a", embed_dim, present)], "head_dim")) == [expected]


def test_the_rule_keeps_key_value_groups() -> None:
    plan = rule_of_thumb([site("a", 384, 16, num_kv_heads=4)], "width")
    assert plan["a"] == HeadCount(4, 1, 96)  # the rule says 6; 4 and 8 are legal and equally near


def test_the_mixed_rule_halves_the_shallow_half_of_each_stack() -> None:
    encoder = [site(f"encoder.{layer}", 384, 12) for layer in range(4)]
    decoder = [
        site(f"decoder.{layer}.{name}", 384, 12, role=role)
        for layer in range(3)
        for name, role in (("self", "causal"), ("cross", "cross"))
    ]
    assert heads(mixed_rule([*encoder, *decoder], "width")) == [3, 3, 6, 6, 3, 3, 6, 6, 6, 6]


def test_a_stack_of_one_is_all_deep() -> None:
    assert heads(mixed_rule([site("attn", 384, 12)], "width")) == [6]


@pytest.mark.parametrize(
    ("embed_dim", "expected"),
    [(64, [1, 1]), (192, [1, 3]), (320, [2, 5]), (448, [4, 7])],  # halves 0.5, 1.5, 2.5, 3.5
)
def test_the_half_of_the_mixed_rule_snaps_with_ties_to_the_smaller(embed_dim: int, expected: list[int]) -> None:
    assert heads(mixed_rule([site(f"layers.{layer}", embed_dim, 1) for layer in range(2)], "width")) == expected


@given(
    st.sampled_from(["width", "head_dim"]),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 64)), min_size=1, max_size=6),
)
def test_both_forms_are_legal_and_the_mixed_one_never_larger(hold: Hold, shapes: list[tuple[int, int, int]]) -> None:
    sites = [
        site(f"layers.{number}", groups * size * head_dim, groups * size, groups)
        for number, (groups, size, head_dim) in enumerate(shapes)
    ]
    rule, mixed = rule_of_thumb(sites, hold), mixed_rule(sites, hold)
    rule.check(sites, hold=hold)
    mixed.check(sites, hold=hold)
    for here in sites:
        assert mixed[here.path].num_heads <= rule[here.path].num_heads
        target = rule_heads(here.embed_dim) if hold == "width" else min(here.num_heads, rule_heads(here.embed_dim))
        off = abs(rule[here.path].num_heads - target)
        assert off == min(abs(count - target) for count in legal_heads(here, hold))
