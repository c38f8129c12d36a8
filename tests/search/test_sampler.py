from typing import get_args

import pytest
from optuna.samplers import GPSampler, NSGAIISampler, RandomSampler, TPESampler

from headtune.search.sampler import Choice, SamplerName, build_sampler, choose_sampler, population_size


@pytest.mark.parametrize("asked", [name for name in get_args(SamplerName) if name != "auto"])
def test_what_is_asked_for_is_taken(asked: SamplerName) -> None:
    assert choose_sampler(asked, unseen=3, left=10, trials=10, plain=False) == Choice(asked, "as asked")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unseen", "left", "trials", "said"),
    [
        (10, 10, 10, "sampler grid: 10 combinations are untried and 10 trials left, so every one is tried"),
        (
            11,
            10,
            10,
            "sampler gp: 11 combinations are untried and 10 trials left; a Gaussian process learns most from so few",
        ),
        (None, 200, 200, "sampler gp: a param is continuous; a Gaussian process learns most from so few"),
        (None, 10, 201, "sampler tpe: a param is continuous; beyond 200 trials a Gaussian process is too slow"),
        (
            900,
            201,
            201,
            "sampler tpe: 900 combinations are untried and 201 trials left; "
            "beyond 200 trials a Gaussian process is too slow",
        ),
        (
            8**96,
            201,
            201,
            "sampler tpe: about 10^86 combinations are untried and 201 trials left; "
            "beyond 200 trials a Gaussian process is too slow",
        ),
        (201, 201, 900, "sampler grid: 201 combinations are untried and 201 trials left, so every one is tried"),
    ],
)
def test_auto_says_what_it_takes_and_why(unseen: int | None, left: int, trials: int, said: str) -> None:
    assert str(choose_sampler("auto", unseen=unseen, left=left, trials=trials, plain=False)) == said


@pytest.mark.parametrize(("trials", "name"), [(11, "ehvi"), (200, "ehvi"), (201, "tpe")])
def test_auto_searches_by_itself_where_objectives_are_plain(trials: int, name: str) -> None:
    choice = choose_sampler("auto", unseen=900, left=10, trials=trials, plain=True)
    assert choice.name == name
    assert choose_sampler("auto", unseen=10, left=10, trials=trials, plain=True).name == "grid"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gp", GPSampler),
        ("tpe", TPESampler),
        ("nsga2", NSGAIISampler),
        ("random", RandomSampler),
        ("grid", RandomSampler),
    ],
)
def test_each_name_is_an_optuna_sampler(name: str, kind: type) -> None:
    assert isinstance(build_sampler(Choice(name, ""), seed=0, trials=100), kind)  # type: ignore[arg-type]


def test_nsga2_has_as_many_generations_as_parents() -> None:
    assert [population_size(trials) for trials in (4, 100, 2500)] == [8, 10, 50]
    sampler = build_sampler(Choice("nsga2", ""), seed=0, trials=400)
    assert isinstance(sampler, NSGAIISampler)
    assert sampler.population_size == 20
