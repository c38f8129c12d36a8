from typing import Any, get_args

import pytest
from pydantic import ValidationError

from headtune.config.problems import explain
from headtune.config.space import ParamRangeSection, SpaceSection
from headtune.heads import HeadDimConstraint, HeadRange, SiteOptions, SpaceOptions, Stages
from headtune.trial.setup import Weights

NEEDED = {"hold": "head_dim", "weights": "fresh"}


def build(**keys: object) -> SpaceOptions:
    return SpaceSection.model_validate({**NEEDED, **keys}).build()


def problems(**keys: object) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        SpaceSection.model_validate({**NEEDED, **keys})
    found = [problem for error in caught.value.errors() for problem in explain(error, SpaceSection)]
    return {".".join(map(str, where)): sentence for where, sentence in found}


def test_what_is_not_said_has_the_defaults_of_the_space_itself() -> None:
    assert build() == SpaceOptions(hold="head_dim")


def test_every_key_reaches_the_space() -> None:
    assert build(
        hold="head_dim",
        heads={"min": 2, "max": 8, "divisible_by": 2},
        tie={"stages": 3},
        sites={
            "role=cross": {"heads": [1, 2]},
            "encoder.*": {"heads": {"max": 4}, "kv_heads": "auto", "head_dims": [8]},
        },
        kv_heads=[1, 2],
        head_dims=[16, 32],
    ) == SpaceOptions(
        hold="head_dim",
        heads=HeadRange(min=2, max=8, divisible_by=2),
        tie=Stages(3),
        sites={
            "role=cross": SiteOptions(heads=[1, 2]),
            "encoder.*": SiteOptions(heads=HeadRange(max=4), kv_heads="auto", head_dims=[8]),
        },
        kv_heads=[1, 2],
        head_dims=[16, 32],
    )


@pytest.mark.parametrize("tie", ["none", "uniform", "ramp"])
def test_ties_that_are_words(tie: str) -> None:
    assert build(tie=tie).tie == tie


def test_the_wanted_head_dimensions_come_from_the_constraints() -> None:
    wanted = HeadDimConstraint(min=4)
    assert SpaceSection.model_validate(NEEDED).build(wanted).head_dim == wanted


def test_hold_and_weights_have_no_default() -> None:
    assert problems(hold=None, weights=None).keys() == {"hold", "weights"}
    with pytest.raises(ValidationError) as caught:
        SpaceSection.model_validate({})
    found = [problem for error in caught.value.errors() for problem in explain(error, SpaceSection)]
    assert found == [
        (
            ("hold",),
            "is missing; write width (head_dim = width / heads; parameters stay) or "
            "head_dim (width = heads × head_dim; parameters shrink)",
        ),
        (
            ("weights",),
            "is missing; write fresh (every trial trains what `model` returns) or keep (it returns a trained model, "
            "whose heads are pruned)",
        ),
    ]


@pytest.mark.parametrize(
    ("keys", "where", "sentence"),
    [
        ({"hold": "widht"}, "hold", "must be width or head_dim (got 'widht'); did you mean width?"),
        ({"weights": "frozen"}, "weights", "must be fresh or keep (got 'frozen')"),
        (
            {"weights": "keep", "hold": "width"},
            "hold",
            "must be head_dim under `weights: keep`: trained heads that are split anew are scrambled",
        ),
        (
            {"weights": "keep", "head_dims": [8, 16]},
            "head_dims",
            "must be same under `weights: keep`: trained heads keep their features",
        ),
        (
            {"weights": "keep", "sites": {"a": {"head_dims": [8]}}},
            "sites.a.head_dims",
            "must be same under `weights: keep`: trained heads keep their features",
        ),
        (
            {"heads": "atuo"},
            "heads",
            "must be auto, a list such as [1, 2, 4], or a range such as {min: 1, max: 16} (got 'atuo')",
        ),
        ({"heads": 4}, "heads", "must be auto, a list such as [1, 2, 4], or a range such as {min: 1, max: 16} (got 4)"),
        ({"heads": [1, "two"]}, "heads.1", "must be a whole number (got 'two')"),
        ({"heads": [1, 2.0]}, "heads.1", "must be a whole number (got 2.0)"),
        ({"heads": []}, "heads", "the list is empty; name at least one number, or write auto"),
        ({"heads": {"min": 0}}, "heads", "min is 0; it must be at least 1"),
        ({"heads": {"mni": 1}}, "heads.mni", "is not a known key; did you mean min?"),
        ({"kv_heads": {}}, "kv_heads", "must be same, auto, or a list such as [1, 2, 4] (got a mapping)"),
        ({"head_dims": "all"}, "head_dims", "must be same, or a list such as [16, 32] (got 'all')"),
        ({"tie": "stages"}, "tie", "must be none, uniform, ramp, or {stages: n} (got 'stages')"),
        ({"tie": ["none"]}, "tie", "must be none, uniform, ramp, or {stages: n} (got a list)"),
        ({"tie": {"stages": 0}}, "tie", "stages is 0; it must be at least 1"),
        ({"tie": {}}, "tie.stages", "is missing; write the number of groups that each stack of layers is cut into"),
        ({"sites": {"a": {"head": [1]}}}, "sites.a.head", "is not a known key; did you mean heads?"),
        ({"sites": ["a"]}, "sites", "must be a mapping of `key: value` (got a list)"),
        (
            {"params": {"b-d": [1]}},
            "params.b-d",
            "must be a name as in Python code: letters, digits and '_' (got 'b-d')",
        ),
        (
            {"params": {"lr": 0.1}},
            "params.lr",
            "must be a range such as {low: 0.0, high: 1.0} or a list of choices (got 0.1)",
        ),
        ({"params": {"lr": {"low": 0.1}}}, "params.lr.high", "is missing; write the largest value"),
        ({"params": {"lr": {"low": "x", "high": 1.0}}}, "params.lr.low", "must be a number (got 'x')"),
        (
            {"params": {"lr": {"low": 0.2, "high": 0.1}}},
            "params.lr.high",
            "must be more than low (got low 0.2, high 0.1)",
        ),
        (
            {"params": {"lr": {"low": 0.0, "high": 0.1, "log": True}}},
            "params.lr.low",
            "must be more than 0 under `log: true` (got 0.0)",
        ),
        (
            {"params": {"lr": {"low": 0.1, "high": 0.2, "default": 0.3}}},
            "params.lr.default",
            "must lie between low 0.1 and high 0.2 (got 0.3)",
        ),
        (
            {"params": {"p": {"low": 0, "high": 1}}},
            "params.p",
            "low 0 and high 1 are both whole: add `type: int` or `type: float`",
        ),
        (
            {"params": {"p": {"low": 0, "high": 1.5, "type": "int"}}},
            "params.p.high",
            "must be a whole number under `type: int` (got 1.5)",
        ),
        (
            {"params": {"p": {"low": 0.0, "high": 1.0, "Log": 1}}},
            "params.p.Log",
            "is not a known key; did you mean log?",
        ),
        ({"params": {"p": []}}, "params.p", "must name at least one value"),
        ({"params": {"p": ["a", "b", "a"]}}, "params.p.2", "is there twice: 'a'; keep one"),
        ({"params": {"p": [["a"]]}}, "params.p.0", "must be text, a number, true or false (got a list)"),
        ({"params": {"p": {"choices": ["a", "a"]}}}, "params.p.choices.1", "is there twice: 'a'; keep one"),
        (
            {"params": {"p": {"choices": ["a"], "default": "b"}}},
            "params.p.default",
            "must be one of the choices (got 'b')",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_key_and_the_way_out(keys: dict[str, Any], where: str, sentence: str) -> None:
    assert problems(**keys) == {where: sentence}


def test_head_dims_cannot_be_searched_while_the_width_is_held() -> None:
    (where,) = problems(hold="width", head_dims=[16])
    assert where == "head_dims"


def test_choices_that_are_equal_are_refused() -> None:
    assert problems(params={"p": [1, "1", True]}) == {"params.p.2": "is there twice: True, which equals 1; keep one"}


def test_whole_and_real_ranges() -> None:
    params = {
        "real": {"low": 0.0, "high": 1},
        "asked_real": {"low": 0, "high": 1, "type": "float"},
        "whole": {"low": 0, "high": 1, "type": "int"},
    }
    found = SpaceSection.model_validate({**NEEDED, "params": params}).params
    real = {name: section.is_real for name, section in found.items() if isinstance(section, ParamRangeSection)}
    assert real == {"real": True, "asked_real": True, "whole": False}


def test_a_file_and_python_know_the_same_weights() -> None:
    assert get_args(SpaceSection.model_fields["weights"].annotation) == get_args(Weights)
