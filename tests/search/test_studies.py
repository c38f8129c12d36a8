import optuna
import pytest
from optuna.storages import BaseStorage

from headtune.pareto import Objective
from headtune.search.storage import open_storage
from headtune.search.studies import VERIFY_SUFFIX, find_study, open_study, study_names

GOALS = (Objective(metric="bleu", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))


@pytest.fixture
def storage(url: str) -> BaseStorage:
    return open_storage(url, create=True)


def test_a_study_is_made_once_with_named_objectives(storage: BaseStorage) -> None:
    assert find_study(storage, "vit") is None
    made = open_study(storage, "vit", GOALS)
    assert open_study(storage, "vit", GOALS) == made == find_study(storage, "vit")
    study = optuna.load_study(study_name="vit", storage=storage)
    assert study.metric_names == ["bleu", "latency_ms"]
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]


def test_retrainings_are_not_listed(storage: BaseStorage) -> None:
    for name in ("vit", "vit" + VERIFY_SUFFIX, "lm"):
        open_study(storage, name, GOALS)
    assert sorted(study_names(storage)) == ["lm", "vit"]
