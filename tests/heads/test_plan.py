import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import PlanError
from headtune.heads.legal import divisors
from headtune.heads.plan import HeadCount, HeadPlan
from headtune.heads.site import AttentionSite, Hold, Role


def site(path: str, role: Role = "self", num_heads: int = 8, num_kv_heads: int = 8, head_dim: int = 8) -> AttentionSite:
    return AttentionSite(
        path=path, role=role, embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim
    )


SITES = (
    site("encoder.layers.0.self_attn"),
    site("encoder.layers.1.self_attn"),
    site("decoder.layers.0.self_attn", "causal"),
    site("decoder.layers.0.cross_attn", "cross"),
)


@st.composite
def sites_and_plans(draw: st.DrawFn) -> tuple[list[AttentionSite], HeadPlan, Hold]:
    """Sites with any paths and groups, and any plan that is legal for them."""
    hold: Hold = draw(st.sampled_from(["width", "head_dim"]))
    paths = draw(st.lists(st.text(alphabet="ab0.*=[?]/x", max_size=8), min_size=1, max_size=5, unique=True))
    sites, counts = [], {}
    for path in paths:
        groups, size, head_dim = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
        here = site(path, draw(st.sampled_from(["self", "causal", "cross"])), groups * size, groups, head_dim)
        heads = draw(st.sampled_from(divisors(here.width)) if hold == "width" else st.integers(1, here.num_heads))
        dim = here.width // heads if hold == "width" else draw(st.integers(1, 64))
        sites.append(here)
        counts[path] = HeadCount(heads, draw(st.sampled_from(divisors(heads))), dim)
    return sites, HeadPlan.of(counts), hold


def heads(plan: HeadPlan) -> list[int]:
    return [count.num_heads for _, count in plan]


@given(sites_and_plans())
def test_str_parses_back_to_the_same_plan(drawn: tuple[list[AttentionSite], HeadPlan, Hold]) -> None:
    sites, plan, hold = drawn
    assert HeadPlan.parse(str(plan), sites, hold=hold) == plan


@given(sites_and_plans())
def test_json_and_pickle_bring_back_the_same_plan(drawn: tuple[list[AttentionSite], HeadPlan, Hold]) -> None:
    _, plan, _ = drawn
    assert HeadPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert len({plan, HeadPlan.of(dict(plan))}) == 1


@given(sites_and_plans())
def test_a_legal_plan_passes_the_check(drawn: tuple[list[AttentionSite], HeadPlan, Hold]) -> None:
    sites, plan, hold = drawn
    plan.check(sites, hold=hold)


def test_present_is_what_the_sites_have() -> None:
    assert HeadPlan.present(SITES).to_json() == {here.path: [8, 8, 8] for here in SITES}


def test_sites_that_are_not_named_keep_their_present_counts() -> None:
    assert heads(HeadPlan.parse("decoder.*=2", SITES, hold="width")) == [8, 8, 2, 2]


def test_the_last_match_wins() -> None:
    assert heads(HeadPlan.parse("*=4 encoder.*=2 *.0.*=1", SITES, hold="width")) == [1, 2, 1, 1]


def test_a_role_is_selected_by_role() -> None:
    assert heads(HeadPlan.parse("role=cross=4 role=causal=2", SITES, hold="width")) == [8, 8, 2, 4]


def test_under_hold_width_head_dim_follows() -> None:
    plan = HeadPlan.parse("*=4", SITES, hold="width")
    assert plan["encoder.layers.0.self_attn"] == HeadCount(4, 4, 16)


def test_under_hold_head_dim_the_width_follows() -> None:
    plan = HeadPlan.parse("*=3 encoder.layers.0.*=3x32", SITES, hold="head_dim")
    assert plan["encoder.layers.1.self_attn"] == HeadCount(3, 3, 8)
    assert plan["encoder.layers.0.self_attn"] == HeadCount(3, 3, 32)


def test_key_value_heads_keep_the_group_size_unless_named() -> None:
    grouped = (site("attn", num_heads=8, num_kv_heads=2),)
    assert HeadPlan.parse("*=16", grouped, hold="width")["attn"] == HeadCount(16, 4, 4)
    assert HeadPlan.parse("*=16/16", grouped, hold="width")["attn"] == HeadCount(16, 16, 4)


def test_a_maximum_lets_a_site_grow_under_hold_head_dim() -> None:
    assert heads(HeadPlan.parse("*=12", SITES, hold="head_dim", maximum=12)) == [12, 12, 12, 12]


def test_selectors_are_separated_by_spaces() -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.parse("*=2,*=4 *=2, role=cross=4,*=2 *=9", SITES, hold="width")
    assert caught.value.problems[:3] == (
        "'*=2,*=4' has a comma; separate selectors by spaces: '*=2 *=4'",
        "'*=2,' has a comma; separate selectors by spaces: '*=2'",
        "'role=cross=4,*=2' has a comma; separate selectors by spaces: 'role=cross=4 *=2'",
    )
    odd = site("a,b", num_heads=8)
    assert heads(HeadPlan.parse("a,b=4", (odd,), hold="width")) == [4]


def test_parse_lists_all_problems_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.parse("encoder.*=7 role=cross=4/3 vit.*=2 eight role=causal=8x", SITES, hold="width")
    assert str(caught.value) == (
        "6 problems:\n"
        "  - 'vit.*' matches no site; sites: encoder.layers.0.self_attn, encoder.layers.1.self_attn, "
        "decoder.layers.0.self_attn, decoder.layers.0.cross_attn\n"
        "  - 'eight' has no '='; write selector=heads[/kv_heads][xhead_dim], as in encoder.*=8\n"
        "  - 'role=causal=8x': '8x' is not a head count; write heads[/kv_heads][xhead_dim], as in 8, 8/2 or 8/2x32\n"
        "  - encoder.layers.0.self_attn: 7 heads do not divide the width 64; legal: 1, 2, 4, 8, 16, 32, 64\n"
        "  - encoder.layers.1.self_attn: 7 heads do not divide the width 64; legal: 1, 2, 4, 8, 16, 32, 64\n"
        "  - decoder.layers.0.cross_attn: 3 key/value heads do not divide 4 heads; legal: 1, 2, 4"
    )


def test_parse_judges_only_the_last_match() -> None:
    assert heads(HeadPlan.parse("*=7 *=4", SITES, hold="width")) == [4, 4, 4, 4]


def test_check_lists_missing_unknown_and_illegal_sites() -> None:
    plan = HeadPlan.of({"a": HeadCount(3, 3, 8), "c": HeadCount(8, 8, 8)})
    with pytest.raises(PlanError) as caught:
        plan.check((site("a"), site("b")), hold="width")
    assert str(caught.value) == (
        "3 problems:\n"
        "  - 'c' matches no site; sites: a, b\n"
        "  - b: the plan has no counts for this site\n"
        "  - a: 3 heads do not divide the width 64; legal: 1, 2, 4, 8, 16, 32, 64"
    )


@pytest.mark.parametrize("counts", [[8, 8], [8, 8, 8, 8], [8, 8, 0], [8, 8, 8.0], [8, 8, True], "888", None, 8])
def test_from_json_refuses_what_is_no_count(counts: object) -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.from_json({"attn": counts, "other": [1, 1, 1]})  # type: ignore[dict-item]
    assert str(caught.value) == (
        f"attn: {counts!r} is not [num_heads, num_kv_heads, head_dim] in whole numbers of at least 1"
    )


def test_str_and_label_are_for_people() -> None:
    plan = HeadPlan.of({"a": HeadCount(8, 8, 8), "b": HeadCount(4, 2, 16)})
    assert str(plan) == "a=8/8x8 b=4/2x16"
    assert plan.label == "8-4/2"


def test_plans_sort_by_their_counts() -> None:
    plans = [HeadPlan.of({"a": HeadCount(heads, heads, 8)}) for heads in (8, 2, 4)]
    assert [heads(plan) for plan in sorted(plans)] == [[2], [4], [8]]


def test_a_plan_is_read_by_path_and_in_order() -> None:
    plan = HeadPlan.present(SITES)
    assert plan.paths == tuple(here.path for here in SITES)
    assert len(plan) == 4
    assert plan["decoder.layers.0.cross_attn"] == HeadCount(8, 8, 8)


def test_a_plan_shows_its_counts_in_its_own_grammar() -> None:
    plan = HeadPlan.parse("encoder.*=4 decoder.*=8/2", SITES, hold="width")
    assert repr(plan) == "HeadPlan('4x16-4x16-8/2x8-8/2x8')"


@pytest.mark.parametrize("text", ["", " \n", None, 8, {"encoder.*": 8}])
def test_what_is_no_text_of_a_plan_is_refused(text: object) -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.parse(text, SITES, hold="width")  # type: ignore[arg-type]
    assert str(caught.value) == (f"{text!r} is no plan; write selector=heads[/kv_heads][xhead_dim], as in encoder.*=8")


def test_everything_that_is_not_what_parse_takes_is_told_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.parse("", "a model", hold="heads")  # type: ignore[arg-type]
    assert caught.value.problems == (
        "hold: must be width or head_dim (got 'heads')",
        "sites: must be the model's, as headtune.sites(model, inputs) gives them (got 'a model')",
        "'' is no plan; write selector=heads[/kv_heads][xhead_dim], as in encoder.*=8",
    )


@pytest.mark.parametrize(
    "counts", [{"a": 3}, 3, (("a", 3),), (("a", (1, 1, 1)),), (("a",),), [("a", HeadCount(1, 1, 1))]]
)
def test_what_is_no_tuple_of_paths_with_counts_is_no_plan(counts: object) -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan(counts)  # type: ignore[arg-type]
    assert str(caught.value) == f"HeadPlan: must be made by HeadPlan.of({{path: HeadCount(...)}}) (got {counts!r})"


def test_what_is_no_mapping_of_paths_to_counts_is_no_plan() -> None:
    with pytest.raises(PlanError) as caught:
        HeadPlan.of({"a": 3, 4: (1, 1, 1)})  # type: ignore[dict-item]
    assert caught.value.problems == (
        "a: 3 is not [num_heads, num_kv_heads, head_dim] in whole numbers of at least 1",
        "4: (1, 1, 1) is not [num_heads, num_kv_heads, head_dim] in whole numbers of at least 1",
    )
    with pytest.raises(PlanError, match=r"^a plan must be a mapping of paths to counts \(got 3\)$"):
        HeadPlan.of(3)  # type: ignore[arg-type]


def test_arguments_of_the_wrong_type_are_named_at_once() -> None:
    wrong: Any = 5
    for call in (
        lambda: HeadPlan.parse("*=2", wrong, hold=wrong, maximum="x"),  # type: ignore[arg-type]
        lambda: HeadPlan.present(SITES).check(wrong, hold=wrong, maximum="x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(PlanError) as caught:
            call()
        assert [problem.partition(":")[0] for problem in caught.value.problems] == ["hold", "maximum", "sites"]
    with pytest.raises(PlanError, match="sites: must be the model's"):
        HeadPlan.present(wrong)
