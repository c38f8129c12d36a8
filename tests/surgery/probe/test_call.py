import dataclasses

import pytest

from headtune.surgery.probe import AttentionCall, Frame, Projections


def call(**changes: object) -> AttentionCall:
    given: dict[str, object] = {
        "frames": (Frame(path="", width=8, sequences=1), Frame(path="attn", width=8, sequences=2)),
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 2,
        "scale": 0.5,
        "two_inputs": False,
        "causal": True,
        "projections": Projections(q=frozenset({"attn.q.weight"})),
    }
    return AttentionCall(**{**given, **changes})


def test_calls_are_values() -> None:
    assert call() == call()
    assert hash(call()) == hash(call())
    assert call() != call(projections=Projections())
    with pytest.raises(dataclasses.FrozenInstanceError):
        call().num_heads = 3


def test_projections_that_were_not_seen_are_empty() -> None:
    assert Projections() == Projections(q=frozenset(), k=frozenset(), v=frozenset(), out=frozenset())
