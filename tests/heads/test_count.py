import pickle

from headtune.heads.count import HeadCount


def test_a_count_without_groups_prints_heads_and_head_dim() -> None:
    assert str(HeadCount(8, 8, 32)) == "8x32"


def test_a_count_with_groups_prints_the_key_value_heads() -> None:
    assert str(HeadCount(8, 2, 32)) == "8/2x32"


def test_counts_sort_by_heads_first() -> None:
    counts = [HeadCount(8, 1, 8), HeadCount(2, 2, 64), HeadCount(2, 1, 64)]
    assert sorted(counts) == [HeadCount(2, 1, 64), HeadCount(2, 2, 64), HeadCount(8, 1, 8)]


def test_a_count_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(HeadCount(8, 2, 32))) == HeadCount(8, 2, 32)
