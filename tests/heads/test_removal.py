"""The least heads over all sites go first, and one stays everywhere."""

import random

import pytest

from headtune.errors import PlanError
from headtune.heads import AttentionSite, HeadMask
from headtune.heads.removal import without_least


def site(path: str, heads: int = 4, groups: int | None = None) -> AttentionSite:
    return AttentionSite(
        path=path, role="self", embed_dim=64, num_heads=heads, num_kv_heads=groups or heads, head_dim=64 // heads
    )


TWO = (site("a"), site("b"))
WHOLE = HeadMask.of({})


def test_the_least_over_all_sites_go() -> None:
    scores = {"a": [0.4, 0.1, 0.5, 0.6], "b": [0.2, 0.9, 0.3, 0.8]}
    assert without_least(WHOLE, TWO, scores, 1).to_json() == {"a": [0, 2, 3], "b": [0, 1, 2, 3]}
    assert without_least(WHOLE, TWO, scores, 3).to_json() == {"a": [0, 2, 3], "b": [1, 3]}


def test_scores_are_those_of_the_heads_that_are_left() -> None:
    mask = HeadMask.of({"a": [1, 3]})
    assert without_least(mask, TWO, {"a": [0.9, 0.1], "b": [1.0] * 4}, 1).to_json() == {"a": [1], "b": [0, 1, 2, 3]}


def test_one_stays_at_every_site_however_little_it_scores() -> None:
    scores = {"a": [0.0, 0.0, 0.0, 0.0], "b": [1.0, 2.0, 3.0, 4.0]}
    found = without_least(WHOLE, TWO, scores, 5)
    assert (len(found["a"]), found["b"]) == (1, (2, 3))
    assert [len(heads) for _, heads in without_least(WHOLE, TWO, scores, 99).kept] == [1, 1]


def test_query_heads_go_with_their_key_value_head() -> None:
    grouped = (site("a", 8, 4), site("b", 4))
    scores = {"a": [0.1, 0.9, 0.2, 0.2, 0.5, 0.5, 0.6, 0.6], "b": [0.3, 0.9, 0.9, 0.9]}
    found = without_least(WHOLE, grouped, scores, 2)
    assert found.to_json() == {"a": [0, 1, 4, 5, 6, 7], "b": [1, 2, 3]}, "0.3, then 0.4 for two heads"
    found.plan(grouped)


def test_steps_are_nested_and_legal() -> None:
    rng = random.Random(0)
    sites = (site("a", 8, 2), site("b", 4), site("c", 1))
    mask, before = WHOLE, 13
    for _ in range(6):
        scores = {one.path: [rng.random() for _ in mask.heads(one)] for one in sites}
        smaller = without_least(mask, sites, scores, 2)
        assert all(set(smaller[one.path]) <= set(mask.heads(one)) for one in sites)
        left = sum(len(heads) for _, heads in smaller.kept)
        assert left <= before
        mask, before = smaller, left
        mask.plan(sites)
    assert before == 4 + 1 + 1, "one key/value head with its four query heads"


def test_scores_that_do_not_fit_are_all_named() -> None:
    with pytest.raises(PlanError) as caught:
        without_least(WHOLE, TWO, {"a": [1.0]}, 1)
    assert caught.value.problems == ("a: 1 scores for 4 heads", "b: 0 scores for 4 heads")
