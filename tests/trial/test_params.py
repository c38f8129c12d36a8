import math
import pickle

import pytest

from headtune.errors import InputError
from headtune.trial.params import ChoiceParam, FloatParam, IntParam, Param, ParamValue


@pytest.mark.parametrize(
    ("param", "baseline"),
    [
        (FloatParam(low=0.0, high=0.3), 0.15),
        (FloatParam(low=1e-4, high=1e-2, log=True), 1e-3),
        (FloatParam(low=1e-4, high=1e-2, log=True, default=3e-3), 3e-3),
        (FloatParam(low=0.0, high=0.3, default=0.0), 0.0),
        (IntParam(low=2, high=8), 5),
        (IntParam(low=1, high=64, log=True), 8),
        (IntParam(low=0, high=8, default=0), 0),
        (ChoiceParam(choices=("relu", "gelu")), "relu"),
        (ChoiceParam(choices=("relu", "gelu"), default="gelu"), "gelu"),
        (ChoiceParam(choices=(True, False), default=False), False),
    ],
)
def test_what_baselines_train_with(param: Param, baseline: ParamValue) -> None:
    assert param.baseline == baseline
    assert type(param.baseline) is type(baseline)


@pytest.mark.parametrize(
    "param",
    [
        FloatParam(low=0.0, high=0.3),
        FloatParam(low=1e-4, high=1e-2, log=True),
        IntParam(low=1, high=2),
        IntParam(low=3, high=100, log=True),
    ],
)
def test_the_middle_lies_between_the_ends(param: FloatParam | IntParam) -> None:
    assert param.low <= param.baseline <= param.high


def test_it_is_a_value() -> None:
    param = FloatParam(low=0.0, high=0.3)
    assert pickle.loads(pickle.dumps(param)) == param
    assert {param: 1}[FloatParam(low=0.0, high=0.3)] == 1
    assert param != FloatParam(low=0.1, high=0.3)


@pytest.mark.parametrize(
    ("kind", "values", "problems"),
    [
        (
            FloatParam,
            {"low": "a", "high": math.inf, "log": 1},
            [
                "FloatParam.low: must be a number (got 'a')",
                "FloatParam.high: must be a number (got inf)",
                "FloatParam.log: must be True or False (got 1)",
            ],
        ),
        (FloatParam, {"low": 1, "high": 1}, ["FloatParam.high: must be more than low (got low 1, high 1)"]),
        (
            FloatParam,
            {"low": 0.0, "high": 1, "log": True},
            ["FloatParam.low: must be more than 0 under `log: true` (got 0.0)"],
        ),
        (
            IntParam,
            {"low": 1.0, "high": True},
            [
                "IntParam.low: must be a whole number (got 1.0)",
                "IntParam.high: must be a whole number (got True)",
            ],
        ),
        (
            IntParam,
            {"low": 1, "high": 4, "default": 5},
            ["IntParam.default: must lie between low 1 and high 4 (got 5)"],
        ),
        (
            FloatParam,
            {"low": -1e308, "high": 1e308},
            ["FloatParam.high: must be nearer to low: no float holds the distance (got -1e+308, 1e+308)"],
        ),
        (
            FloatParam,
            {"low": 1e200, "high": 1e300, "log": True},
            ["FloatParam.high: must be nearer to low: no float holds the distance (got 1e+200, 1e+300)"],
        ),
        (
            IntParam,
            {"low": -(2**53) - 1, "high": 2**53 + 1},
            [
                "IntParam.low: must be at least -9007199254740992 (got -9007199254740993)",
                "IntParam.high: must be at most 9007199254740992 (got 9007199254740993)",
            ],
        ),
        (
            ChoiceParam,
            {"choices": (1, 1.0, True)},
            [
                "ChoiceParam.choices.1: is there twice: 1.0, which equals 1; keep one",
                "ChoiceParam.choices.2: is there twice: True, which equals 1; keep one",
            ],
        ),
        (
            ChoiceParam,
            {"choices": ["a"]},
            ["ChoiceParam.choices: must be a tuple of values, such as ('adamw', 'sgd') (got ['a'])"],
        ),
        (
            ChoiceParam,
            {"choices": ("a", None)},
            ["ChoiceParam.choices.1: must be text, a number, true or false (got None)"],
        ),
        (
            ChoiceParam,
            {"choices": ("a", "a"), "default": "b"},
            [
                "ChoiceParam.choices.1: is there twice: 'a'; keep one",
                "ChoiceParam.default: must be one of the choices (got 'b')",
            ],
        ),
    ],
)
def test_what_has_no_meaning_is_refused(kind: type[Param], values: dict[str, object], problems: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        kind(**values)  # type: ignore[arg-type]
    assert list(caught.value.problems) == problems
