import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.site import AttentionSite


def site(path: str, num_heads: int = 8, num_kv_heads: int = 8) -> AttentionSite:
    return AttentionSite(
        path=path, role="self", embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=8
    )


SITES = (site("a"), site("b"), site("grouped", num_kv_heads=4))
KEPT = st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 9), min_size=1), min_size=1)


def test_the_plan_counts_what_stays_and_leaves_other_sites_alone() -> None:
    plan = HeadMask.of({"a": [5, 0, 3]}).plan(SITES)
    assert plan.to_json() == {"a": [3, 3, 8], "b": [8, 8, 8], "grouped": [8, 4, 8]}


def test_whole_groups_take_their_key_value_head_along() -> None:
    assert HeadMask.of({"grouped": [0, 1, 4, 5]}).plan(SITES)["grouped"] == HeadCount(4, 2, 8)


def test_an_equal_part_of_each_group_keeps_the_key_value_heads() -> None:
    assert HeadMask.of({"grouped": [1, 2, 5, 6]}).plan(SITES)["grouped"] == HeadCount(4, 4, 8)


@given(KEPT)
def test_a_mask_goes_to_json_and_back(kept: dict[str, set[int]]) -> None:
    mask = HeadMask.of(kept)
    assert HeadMask.from_json(json.loads(json.dumps(mask.to_json()))) == mask
    assert pickle.loads(pickle.dumps(mask)) == mask
    assert all(mask[path] == tuple(sorted(heads)) for path, heads in kept.items())


@given(st.sets(st.integers(0, 7), min_size=1))
def test_without_groups_any_subset_of_heads_can_stay(heads: set[int]) -> None:
    assert HeadMask.of({"a": heads}).plan(SITES)["a"] == HeadCount(len(heads), len(heads), 8)


@given(st.sets(st.integers(0, 7), min_size=1))
def test_with_groups_a_mask_is_legal_exactly_when_its_groups_are_even(heads: set[int]) -> None:
    sizes = [sum(head in heads for head in (first, first + 1)) for first in (0, 2, 4, 6)]
    remaining = [size for size in sizes if size]
    mask = HeadMask.of({"grouped": heads})
    if len(set(remaining)) == 1:
        assert mask.plan(SITES)["grouped"] == HeadCount(sum(remaining), len(remaining), 8)
    else:
        with pytest.raises(PlanError):
            mask.plan(SITES)


def test_indices_of_arrays_are_taken_as_plain_numbers() -> None:
    mask = HeadMask.of({"a": np.argsort([0.3, 0.1, 0.2])[1:]})
    assert mask == HeadMask.of({"a": [0, 2]})
    assert json.dumps(mask.to_json()) == '{"a": [0, 2]}'


def test_a_mask_prints_its_heads() -> None:
    assert str(HeadMask.of({"a": [2, 0], "b": [1]})) == "a=[0,2] b=[1]"


def test_of_lists_all_problems_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"a": [], "b": [1, 1, -2]})
    assert str(caught.value) == (
        "3 problems:\n"
        "  - a: no head stays; at least one must\n"
        "  - b: -2 is no head; heads are counted from 0\n"
        "  - b: head 1 is named 2 times"
    )


@pytest.mark.parametrize("wrong", [5, None, "0", ["0"], [0.5], {0: 1}, [True, False], np.array([True]), np.array(2)])
def test_only_numbers_of_heads_are_taken(wrong: object) -> None:
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"a": wrong, "b": [0, 0], 5: [0]})  # type: ignore[dict-item]
    assert caught.value.problems[0].startswith("a: the heads that stay must be a list of their numbers, as in {")
    assert caught.value.problems[1:] == (
        "b: head 0 is named 2 times",
        "5 is no path; name sites by text, as in {'encoder.layers.0': [0, 2]}",
    )


def test_truth_values_of_torch_are_no_numbers_either() -> None:
    with pytest.raises(PlanError, match="a list of their numbers"):
        HeadMask.of({"a": torch.tensor([True, False])})
    assert HeadMask.of({"a": torch.tensor([2, 0])}) == HeadMask.of({"a": [0, 2]})


@pytest.mark.parametrize("wrong", [None, 5, [0, 1], "a=[0]"])
def test_a_mask_is_a_mapping(wrong: object) -> None:
    with pytest.raises(PlanError, match="a mask must be a mapping of paths to the heads that stay, as in"):
        HeadMask.of(wrong)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"HeadMask: must be made by HeadMask\.of"):
        HeadMask(wrong)  # type: ignore[arg-type]


def test_plan_lists_all_problems_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"a": [7, 8], "x": [0]}).plan(SITES)
    assert caught.value.problems == (
        "'x' matches no site; sites: a, b, grouped",
        "a: there is no head 8; heads go from 0 to 7",
    )
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"grouped": [0, 1, 2]}).plan(SITES)
    assert str(caught.value) == (
        "grouped: key/value head 0 keeps 2, key/value head 1 keeps 1; keep equally many of each 2, or none"
    )


def test_sites_are_named_by_glob_and_by_role_and_the_last_wins() -> None:
    cross = AttentionSite(path="cross", role="cross", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
    sites = (*SITES, cross)
    mask = HeadMask.of({"*": [0, 1], "role=cross": [3], "a": [5], "[bx]": [6]})
    assert [mask.heads(site) for site in sites] == [(5,), (6,), (0, 1), (3,)]
    assert mask.at(sites) == HeadMask.of({"a": [5], "b": [6], "grouped": [0, 1], "cross": [3]})
    assert mask.plan(sites)["grouped"] == HeadCount(2, 1, 8)
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"z*": [0], "role=causal": [0], "*": [8]}).at((site("a"), site("wide", 16, 16)))
    assert caught.value.problems == (
        "'z*' matches no site; sites: a, wide",
        "'role=causal' matches no site; sites: a (self), wide (self)",
        "a: there is no head 8; heads go from 0 to 7",
    )


def test_a_mask_fits_sites_however_their_heads_are_grouped() -> None:
    assert HeadMask.of({"grouped": [0, 1, 4]}).at(SITES) == HeadMask.of({"grouped": [0, 1, 4]})
    with pytest.raises(PlanError) as caught:
        HeadMask.of({"a": [0, 9], "c": [0]}).at(SITES)
    assert caught.value.problems == (
        "'c' matches no site; sites: a, b, grouped",
        "a: there is no head 9; heads go from 0 to 7",
    )


def test_a_site_that_is_not_named_keeps_all_its_heads() -> None:
    mask = HeadMask.of({"a": [2, 0]})
    assert [mask.heads(site) for site in SITES] == [(0, 2), tuple(range(8)), tuple(range(8))]
