import pickle

import pytest

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
    assert param != FloatParam(low=0.0, high=0.3, log=True)
