import gc

import pytest
import torch

from headtune.surgery.wiring.gradients import Leaves


def test_features_are_those_that_a_tensor_is_made_of() -> None:
    leaves = Leaves()
    left = leaves.cut("left", torch.randn(2, 3, 6), -1)
    right = leaves.cut("right", torch.randn(2, 3, 4), -1)
    assert leaves.features(left[..., 1:3]) == {"left": frozenset({1, 2})}
    assert leaves.features(left[..., :2] * right[..., 2:]) == {"left": frozenset({0, 1}), "right": frozenset({2, 3})}
    assert leaves.features(left.roll(1, -1)[0, 0, :1]) == {"left": frozenset({5})}


def test_the_graph_ends_at_a_cut() -> None:
    leaves = Leaves()
    first = leaves.cut("first", torch.randn(2, 4), -1)
    second = leaves.cut("second", first @ torch.randn(4, 3), -1)
    assert leaves.features(second[:, :1]) == {"second": frozenset({0})}


def test_a_weight_that_projects_twice_has_the_features_of_both() -> None:
    leaves = Leaves()
    one, other = (leaves.cut("shared", torch.randn(2, 4), -1) for _ in range(2))
    assert leaves.features(one[:, :1] + other[:, 3:]) == {"shared": frozenset({0, 3})}


def test_features_may_stand_in_any_dimension() -> None:
    leaves = Leaves()
    maps = leaves.cut("conv", torch.randn(2, 4, 3), -2)
    assert leaves.features(maps[:, 1]) == {"conv": frozenset({1})}


def test_normalised_features_do_not_cancel() -> None:
    leaves = Leaves()
    x = leaves.cut("w", torch.randn(2, 3, 4, dtype=torch.float64), -1)
    with torch.enable_grad():
        normalised = torch.nn.functional.layer_norm(x, (4,))
    assert leaves.features(normalised) == {"w": frozenset(range(4))}


def test_what_comes_from_nowhere_has_no_features() -> None:
    leaves = Leaves()
    x = leaves.cut("w", torch.randn(2, 4), -1)
    assert leaves.features(torch.ones(3)) == {}
    assert leaves.features(x.detach()) == {}
    assert leaves.features((x * 0)[:, :2]) == {}


@pytest.mark.parametrize("enabled", [True, False])
def test_a_cut_has_gradients_also_where_they_are_off(enabled: bool) -> None:
    with torch.set_grad_enabled(enabled):
        cut = Leaves().cut("w", torch.randn(2), -1)
    assert cut.requires_grad
    assert not cut.is_leaf


def test_leaves_that_nothing_depends_on_any_more_are_let_go() -> None:
    leaves = Leaves()
    cut = leaves.cut("w", torch.randn(2), -1)
    sliced = cut[:1]
    del cut
    gc.collect()
    assert leaves.features(sliced) == {"w": frozenset({0})}
    del sliced
    gc.collect()
    assert [weak() for _, _, weak in leaves._leaves] == [None]
