import pytest
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection

from headtune.search.facts import Facts
from headtune.search.storage import open_storage

LARGE = {"text": 'quote " back \\ ünï' * 4000, "numbers": [0.1 * n for n in range(2000)], "none": None}


@pytest.fixture
def storage(url: str) -> BaseStorage:
    return open_storage(url, create=True)


@pytest.fixture
def study_id(storage: BaseStorage) -> int:
    return storage.create_new_study([StudyDirection.MINIMIZE], "study")


@pytest.mark.parametrize("value", [None, 0, False, "", 1.5, [1, [2]], {"a": {"b": "c"}}, LARGE, float("inf")])
def test_values_come_back(storage: BaseStorage, study_id: int, value: object) -> None:
    facts = Facts(storage, study_id)
    facts.remember("key", value)
    assert Facts(storage, study_id).recall("key") == value


def test_what_was_never_remembered_is_none(storage: BaseStorage, study_id: int) -> None:
    assert Facts(storage, study_id).recall("key") is None


def test_a_new_value_takes_the_old_ones_place_whatever_their_sizes(storage: BaseStorage, study_id: int) -> None:
    facts = Facts(storage, study_id)
    for value in (1, LARGE, {**LARGE, "more": 2}, "small", LARGE, 3):
        facts.remember("key", value)
        assert facts.recall("key") == value


def test_no_field_is_longer_than_the_smallest_database_allows(storage: BaseStorage, study_id: int) -> None:
    facts = Facts(storage, study_id)
    for _ in range(4):
        facts.remember("key", {"quotes": '"' * 50_000})
    fields = storage.get_study_system_attrs(study_id)
    # In the database each part is JSON text of a JSON text: at worst twice as long.
    assert max(len(str(value)) for key, value in fields.items() if key.count(".") == 2) * 2 < 65_535
    assert len(fields) <= 1 + 2 * 8, "old parts are written over, not left behind"


class Dies(InMemoryStorage):
    """A storage whose process dies at its n-th write."""

    writes_left = 1_000

    def set_study_system_attr(self, study_id: int, key: str, value: object) -> None:
        if self.writes_left == 0:
            raise KeyboardInterrupt
        self.writes_left -= 1
        super().set_study_system_attr(study_id, key, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("writes", range(0, 9))
def test_a_kill_in_mid_write_leaves_the_old_value_or_the_new(writes: int) -> None:
    storage = Dies()
    study_id = storage.create_new_study([StudyDirection.MINIMIZE], "study")
    old, new = {"value": "o" * 60_000}, {"value": "n" * 90_000}
    facts = Facts(storage, study_id)
    facts.remember("key", {"value": "x"})
    facts.remember("key", old)
    storage.writes_left = writes
    try:
        facts.remember("key", new)
        survived = new
    except KeyboardInterrupt:
        survived = old
    assert facts.recall("key") == survived
    assert (survived is new) == (writes >= 7), "six parts and the pointer"
