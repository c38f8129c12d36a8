"""What plain values may be: each rule against values on both sides of its border."""

import math
from pathlib import Path
from typing import Any

import pytest

import headtune.rules as rules
from headtune.rules import Rule

HUGE = 10**400


@pytest.mark.parametrize(
    ("rule", "sound", "refused"),
    [
        (rules.truth, [True, False], [0, 1, None, "true"]),
        (rules.integer, [0, -3, HUGE], [True, 1.0, "1", None]),
        (rules.count, [1, 2**31 - 1], [0, -1, 2**31, HUGE, True, 1.5, "1", None]),
        (rules.seed, [0, 2**32 - 1], [-1, 2**32, True, 0.0]),
        (rules.at_least(0, 3), [0, 3], [-1, 4, False]),
        (rules.number, [0, -1.5, 1e308], [math.nan, math.inf, -math.inf, HUGE, True, "1", None]),
        (rules.positive, [5e-324, 1], [0, -1, math.nan, math.inf, True, "2h"]),
        (rules.gpus, [0, 0.5, 1, 2, 3.0], [-1, 1.5, math.nan, math.inf, True, None]),
        (rules.scalar, ["", "a", True, 0, 1.5], [math.nan, None, [], HUGE]),
        (rules.text, ["a", " "], ["", 3, None]),
        (rules.folder_name, ["a", "vit-2.1_b", "9"], ["", ".a", "a/b", "a b", "ä", "a" * 101, 3]),
        (rules.identifier, ["lr", "_", "größe"], ["", "a b", "1a", "class", 3, None]),
        (rules.device, ["auto", "cpu", "cuda", "cuda:0"], ["cuda:", "cuda:x", "tpu", "cpu\n", 0, None]),
        (
            rules.storage,
            ["sqlite:///a.db", "postgresql://me@there/db"],
            [
                "a.db",
                "",
                "sqlite://",
                "sqlite:///",
                "sqlite:///:memory:",
                "sqlite:///a\0.db",
                "sqlite:///\ud800",
                3,
                None,
            ],
        ),
        (rules.path, [Path("a"), Path("größe/ b"), Path("\udcff")], [Path("a\0b"), Path("\ud800"), "a", 3, None]),
        (rules.one_of(("a", "b")), ["a", "b"], ["c", "", 1, None, ["a"]]),
        (rules.a(int, "a number"), [1], ["1", None]),
        (rules.each(int, "numbers", least=1), [(1,), (1, 2)], [(), [1], ("1",), 1, None]),
        (rules.optional(rules.count), [None, 1], [0, "1"]),
    ],
)
def test_a_rule_is_silent_about_what_keeps_it_alone(rule: Rule, sound: list[Any], refused: list[Any]) -> None:
    assert [value for value in sound if rule(value)] == []
    assert [value for value in refused if not rule(value)] == []


def test_a_problem_names_the_value_the_rule_and_what_came() -> None:
    problems = rules.broken(
        {
            "trials": (0, rules.count),
            "epochs": (3, rules.count),
            "sampler": ("x", rules.one_of(("auto", "tpe", "gp"))),
            "seed": (HUGE, rules.seed),
        }
    )
    assert problems == [
        "trials: must be at least 1 (got 0)",
        "sampler: must be auto, tpe or gp (got 'x')",
        f"seed: must be at most 4294967295 (got int 1{'0' * 39}…)",
    ]


@pytest.mark.parametrize(
    ("low", "high", "default", "log", "problems"),
    [
        (0.0, 0.3, None, False, []),
        (1e-4, 1e-2, 1e-4, True, []),
        (1, 1, None, False, ["high: must be more than low (got low 1, high 1)"]),
        (0, 2, 3, False, ["default: must lie between low 0 and high 2 (got 3)"]),
        (
            0.0,
            1.0,
            2.0,
            True,
            [
                "default: must lie between low 0.0 and high 1.0 (got 2.0)",
                "low: must be more than 0 under `log: true` (got 0.0)",
            ],
        ),
    ],
)
def test_ranges(low: float, high: float, default: float | None, log: bool, problems: list[str]) -> None:
    assert rules.sentences(rules.number_range(low, high, default, log=log)) == problems


@pytest.mark.parametrize(
    ("values", "default", "problems"),
    [
        ((2, True, 1.5), True, []),
        (
            (1, "a", 1.0, True),
            None,
            [
                "choices.2: is there twice: 1.0, which equals 1; keep one",
                "choices.3: is there twice: True, which equals 1; keep one",
            ],
        ),
        ((), None, ["choices: must name at least one value"]),
        (
            ("a", "a"),
            "c",
            ["choices.1: is there twice: 'a'; keep one", "default: must be one of the choices (got 'c')"],
        ),
        ((0, 1), False, ["default: must be one of the choices (got False)"]),
    ],
)
def test_choices(values: tuple[object, ...], default: object, problems: list[str]) -> None:
    assert rules.sentences(rules.choices(values, default)) == problems


def test_values_that_do_not_go_together() -> None:
    assert rules.grid("grid", ["lr", "wd"]) == "grid cannot list the real numbers of lr, wd; give choices"
    assert rules.grid("grid", []) == rules.grid("tpe", ["lr"]) == ""
    assert rules.gpus_for("cuda:0", "ray", 0) == (
        "must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise"
    )
    assert rules.gpus_for("cuda", "ray", 0.5) == rules.gpus_for("cuda", "inline", 0) == rules.gpus_for("cpu", "ray", 0)
    assert rules.gpus_for("cpu", "ray", 0) == ""
    assert rules.sentences(rules.inline("inline", 2, "auto", node="far", accelerator="A100")) == [
        "node: must be left out under `executor: inline`, which runs here (got 'far')",
        "accelerator: must be left out under `executor: inline`, which runs here (got 'A100')",
        "concurrent: must be 1 or auto under `executor: inline` (got 2)",
        "cluster: must be local under `executor: inline`",
    ]
    assert rules.inline("inline", None, "local", node=None, accelerator=None) == []
    assert rules.inline("inline", 1, "local", node=None, accelerator=None) == []
    assert rules.inline("ray", 9, "x", node="far", accelerator="A100") == []


def test_trained_weights_keep_the_size_of_their_heads() -> None:
    same: dict[tuple[str, ...], object] = {("head_dims",): "same", ("sites", "a", "head_dims"): None}
    assert rules.kept_weights("keep", "head_dim", same) == []
    assert rules.kept_weights("fresh", "width", {("head_dims",): [8]}) == []
    assert rules.sentences(rules.kept_weights("keep", "width", {("head_dims",): [8]})) == [
        "hold: must be head_dim under `weights: keep`: trained heads that are split anew are scrambled"
    ]
    assert rules.sentences(rules.kept_weights("keep", "head_dim", same | {("sites", "b", "head_dims"): (8,)})) == [
        "sites.b.head_dims: must be same under `weights: keep`: trained heads keep their features"
    ]
