from itertools import islice, product
from math import isclose
from random import Random

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import SpaceError
from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.search.codec import Codec
from headtune.trial import ChoiceParam, FloatParam, IntParam, Param

SITES = tuple(
    AttentionSite(path=f"layer.{n}", role="self", embed_dim=48, num_heads=6, num_kv_heads=6, head_dim=8)
    for n in range(3)
)
PARAMS: dict[str, Param] = {
    "depth": IntParam(low=2, high=4),
    "act": ChoiceParam(choices=("relu", "gelu")),
}
LR = FloatParam(low=1e-4, high=1e-1, log=True)
SPACES = {
    "none": SpaceOptions(hold="head_dim", heads=[1, 2, 6]),
    "width": SpaceOptions(hold="width", heads=[2, 6], kv_heads="auto"),
    "ramp": SpaceOptions(hold="head_dim", tie="ramp"),
    "head_dims": SpaceOptions(hold="head_dim", heads=[2, 6], head_dims=[8, 16]),
}


def codec(space: str = "none", **params: Param) -> Codec:
    return Codec(SearchSpace.of(SITES, SPACES[space]), params)


@pytest.mark.parametrize("space", SPACES)
def test_every_combination_comes_back(space: str) -> None:
    whole = codec(space, **PARAMS)
    listed = list(whole.walk())
    decoded = [whole.decode(encoded) for encoded in listed]
    assert [whole.encode(plan, params) for plan, params in decoded] == listed
    plans = set(SearchSpace.of(SITES, SPACES[space]))
    expected = {(plan, depth, act) for plan, depth, act in product(plans, (2, 3, 4), ("relu", "gelu"))}
    assert {(plan, params["depth"], params["act"]) for plan, params in decoded} == expected
    assert len(listed) == whole.size == len(expected)


@given(st.integers(0, 2**32))
def test_drawn_combinations_come_back_and_lie_in_their_ranges(seed: int) -> None:
    whole = codec(**PARAMS, lr=LR, width=FloatParam(low=-1.0, high=1.0))
    encoded = whole.sample(Random(seed))
    plan, params = whole.decode(encoded)
    assert whole.encode(plan, params) == encoded
    assert 1e-4 <= float(params["lr"]) <= 1e-1
    assert -1 <= float(params["width"]) <= 1


def test_draws_are_uniform_on_their_scale() -> None:
    whole = codec(**PARAMS, lr=LR)
    draws = [whole.sample(Random(seed)) for seed in range(4000)]
    # Standard error of a share of one half in 4000 draws is 0.008; four of them.
    assert isclose(sum(float(d["lr"]) < 10**-2.5 for d in draws) / 4000, 0.5, abs_tol=0.032)
    for choice in range(3):
        assert isclose(sum(d["layer.1"] == choice for d in draws) / 4000, 1 / 3, abs_tol=0.032)


def test_heads_are_ordinal_indices_and_params_keep_their_scale() -> None:
    whole = codec(**PARAMS, lr=LR)
    assert whole.distributions == {
        "layer.0": optuna.distributions.IntDistribution(0, 2),
        "layer.1": optuna.distributions.IntDistribution(0, 2),
        "layer.2": optuna.distributions.IntDistribution(0, 2),
        "depth": optuna.distributions.IntDistribution(2, 4),
        "act": optuna.distributions.CategoricalDistribution(("relu", "gelu")),
        "lr": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True),
    }
    plan = HeadPlan.of({site.path: HeadCount(n, n, 8) for site, n in zip(SITES, (1, 6, 2), strict=True)})
    encoded = whole.encode(plan, {"depth": 3, "act": "gelu", "lr": 0.01})
    assert encoded == {"layer.0": 0, "layer.1": 2, "layer.2": 1, "depth": 3, "act": "gelu", "lr": 0.01}


def test_a_person_reads_counts_not_indices() -> None:
    whole = codec(act=ChoiceParam(choices=("relu", "gelu")))
    plan = HeadPlan.of({site.path: HeadCount(n, n, 8) for site, n in zip(SITES, (1, 6, 2), strict=True)})
    values, distributions = whole.readable(whole.encode(plan, {"act": "gelu"}) or {})
    assert values == {"layer.0": 1, "layer.1": 6, "layer.2": 2, "act": "gelu"}
    assert distributions["layer.0"] == optuna.distributions.CategoricalDistribution((1, 2, 6))
    assert distributions["act"] == optuna.distributions.CategoricalDistribution(("relu", "gelu"))
    assert whole.readable({}) == ({}, {})


def test_counts_of_several_numbers_are_read_as_they_are_written() -> None:
    whole = codec("head_dims")
    values, distributions = whole.readable({"layer.0": 3})
    assert values == {"layer.0": "6x16"}
    assert distributions == {"layer.0": optuna.distributions.CategoricalDistribution(("2x8", "2x16", "6x8", "6x16"))}


def test_what_lies_outside_has_no_code() -> None:
    whole = codec(**PARAMS, lr=LR)
    inside = HeadPlan.present(SITES)
    outside = HeadPlan.of({site.path: HeadCount(5, 5, 8) for site in SITES})
    fine = {"depth": 3, "act": "gelu", "lr": 0.01}
    assert whole.encode(inside, fine) is not None
    assert whole.encode(outside, fine) is None
    for params in ({}, {**fine, "lr": 1.0}, {**fine, "act": "tanh"}, {**fine, "depth": 9}, {**fine, "more": 1}):
        assert whole.encode(inside, params) is None


def test_a_continuous_param_has_no_end() -> None:
    assert codec(**PARAMS).size == 27 * 3 * 2
    assert codec(lr=LR).size is None


def test_a_grid_over_a_continuous_param_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        next(codec(lr=LR, drop=FloatParam(low=0, high=1)).walk())
    assert str(caught.value) == (
        "2 problems:\n"
        "  - sampler: grid cannot list lr, which is continuous; give it choices, or take another sampler\n"
        "  - sampler: grid cannot list drop, which is continuous; give it choices, or take another sampler"
    )


def test_a_param_called_like_a_site_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        Codec(SearchSpace.of(SITES, SPACES["none"]), {"layer.1": LR})
    assert str(caught.value) == "space.params: layer.1 is what a site is called; rename the param"


def test_a_walk_soon_comes_near_every_corner() -> None:
    whole = codec()
    first = [tuple(encoded.values()) for _, encoded in zip(range(9), whole.walk(), strict=False)]
    for axis in range(3):
        assert {point[axis] for point in first} == {0, 1, 2}


def test_values_of_numpy_are_made_plain() -> None:
    import numpy as np

    whole = codec(**PARAMS, lr=LR)
    raw = {
        "layer.0": np.int64(1),
        "layer.1": 0,
        "layer.2": 0,
        "depth": np.int64(2),
        "act": "relu",
        "lr": np.float64(0.01),
    }
    _, params = whole.decode(raw)
    assert [type(params[name]) for name in ("depth", "lr")] == [int, float]


def test_a_plan_is_looked_up_in_the_space_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up, index = [], SearchSpace.index
    monkeypatch.setattr(SearchSpace, "index", lambda space, plan: looked_up.append(plan) or index(space, plan))
    whole = codec()
    inside = HeadPlan.of({site.path: HeadCount(2, 2, 8) for site in SITES})
    outside = HeadPlan.of({site.path: HeadCount(3, 3, 8) for site in SITES})
    for _ in range(3):
        assert whole.encode(inside, {}) == {site.path: 1 for site in SITES}
        assert whole.encode(outside, {}) is None
    assert looked_up == [inside, outside]


def test_a_space_larger_than_any_number_with_a_point_is_walked_without_being_listed() -> None:
    sites = [
        AttentionSite(path=f"layer.{n}", role="self", embed_dim=48, num_heads=6, num_kv_heads=6, head_dim=8)
        for n in range(400)
    ]
    whole = Codec(SearchSpace.of(sites, SpaceOptions(hold="head_dim")), {})
    assert whole.size == 6**400
    first, second = islice(whole.walk(), 2)
    assert set(first.values()) == {0}
    assert first != second
