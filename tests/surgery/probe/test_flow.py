import torch

from headtune.surgery.probe.flow import Flow, entered_apart, merged, same

X, Y = torch.arange(6.0), torch.ones(6)


def test_one_tensor_and_equal_values_are_the_same() -> None:
    assert same(X, X)
    assert same(X, X.clone())
    assert not same(X, Y)
    assert not same(X, X[:5])


def test_meta_tensors_are_the_same_only_by_identity() -> None:
    meta = X.to("meta")
    assert same(meta, meta)
    assert not same(meta, X.to("meta"))
    assert not same(meta, X)


def test_a_tensor_of_several_flows_keeps_the_first_way_and_all_weights() -> None:
    first = Flow(weights=frozenset({"a"}), positions=7, entered=X, scale=2.0)
    second = Flow(weights=frozenset({"b"}), positions=9, entered=Y, scale=3.0)
    assert merged([first]) is first
    both = merged([first, second])
    assert both.weights == {"a", "b"}
    assert (both.positions, both.scale) == (7, 2.0)
    assert both.entered is X


def test_queries_and_keys_entered_apart_when_their_projections_read_different_tensors() -> None:
    assert entered_apart(Flow(entered=X), Flow(entered=Y)) is True
    assert entered_apart(Flow(entered=X), Flow(entered=X.clone())) is False
    assert entered_apart(Flow(), Flow(entered=X)) is None
    assert entered_apart(Flow(entered=X), Flow()) is None
