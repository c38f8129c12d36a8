from random import Random

import numpy as np

from headtune.heads import AttentionSite, SearchSpace, SpaceOptions
from headtune.search.codec import Codec
from headtune.search.surrogate.features import features
from headtune.trial import ChoiceParam, FloatParam, IntParam, Param


def codec(heads: tuple[int, ...] = (1, 2, 3, 4, 8), **params: Param) -> Codec:
    found = tuple(
        AttentionSite(path=f"layer.{n}", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
        for n in range(2)
    )
    return Codec(SearchSpace.of(found, SpaceOptions(hold="head_dim", heads=heads)), params)


def test_every_dimension_lies_between_nought_and_one() -> None:
    book = codec(
        lr=FloatParam(low=1e-4, high=1e-2, log=True), depth=IntParam(low=2, high=6), act=ChoiceParam(choices=("a", "b"))
    )
    names = list(book.distributions)
    one = dict.fromkeys(names[:2], 0) | {"lr": 1e-3, "depth": 3, "act": "b"}
    two = dict.fromkeys(names[:2], 4) | {"lr": 1e-2, "depth": 6, "act": "a"}
    assert np.allclose(
        features([one, two], book.distributions), [[0, 0, 0.5, 0.25, 0, 1], [1, 1, 1, 1, 1, 0]], atol=1e-12
    )


def test_a_dimension_with_one_value_is_no_division_by_nought() -> None:
    book = codec(heads=(4,))
    assert features([book.sample(Random(0))], book.distributions).tolist() == [[0.5, 0.5]]
