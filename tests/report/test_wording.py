import math

import pytest

from headtune.heads.plan import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.report.wording import (
    axis_label,
    baseline_words,
    better_words,
    count,
    interval,
    listing,
    metric_name,
    metric_title,
    number,
    percent,
    quantity,
    setting,
    short_plan,
    signed,
    spread,
    unit_of,
)


@pytest.mark.parametrize(
    ("metric", "name", "title", "unit"),
    [
        ("latency_ms", "latency", "latency (ms)", "ms"),
        ("latency_ms@128", "latency at length 128", "latency at length 128 (ms)", "ms"),
        ("peak_memory_mb", "peak memory", "peak memory (MB)", "MB"),
        ("parameters", "parameters", "parameters", ""),
        ("val_accuracy", "val_accuracy", "val_accuracy", ""),
        ("top@5", "top@5", "top@5", ""),
    ],
)
def test_a_metric_is_named_with_its_unit(metric: str, name: str, title: str, unit: str) -> None:
    assert (metric_name(metric), metric_title(metric), unit_of(metric)) == (name, title, unit)


def test_a_baseline_has_words_and_any_other_label_stays() -> None:
    assert baseline_words("rule-mixed") == "rule of thumb, mixed"
    assert baseline_words("mine") == "mine"


def test_arrows_point_to_the_better_side() -> None:
    up, down = Objective(metric="bleu", direction="maximize"), Objective(metric="latency_ms", direction="minimize")
    assert axis_label(up) == "bleu   higher is better →"
    assert axis_label(down) == "←   latency (ms)   lower is better"
    assert (better_words(up), better_words(down)) == ("higher is better", "lower is better")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.957, "0.9570"),
        (12.3456, "12.35"),
        (-0.5, "−0.5000"),
        (1204224, "1,204,224"),
        (1234.56, "1,235"),
        (3.0, "3"),
        (0, "0"),
        (0.0000123, "1.230e−05"),
        (math.nan, "not a number"),
        (math.inf, "infinite"),
        (-math.inf, "−infinite"),
    ],
)
def test_a_number_has_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_quantity_has_a_unit_where_there_is_one() -> None:
    assert quantity("latency_ms", 3.2141) == "3.214 ms"
    assert quantity("parameters", 152330.0) == "152,330"
    assert quantity("val_accuracy", 0.9) == "0.9000"


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (3, "3"), ("adam", "adam"), (True, "True"), (1e-7, "1e−07")]
)
def test_a_setting_is_written_as_a_person_would(value: float | int | str | bool, text: str) -> None:
    assert setting(value) == text


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.95712, 0.01342, "0.957 ± 0.013"),
        (0.95712, 0.00042, "0.95712 ± 0.00042"),
        (27.3456, 1.26, "27.3 ± 1.3"),
        (1234.5, 210.0, "1,234 ± 210"),
        (-3.21, 0.5, "−3.21 ± 0.50"),
        (0.957, None, "0.9570"),
        (0.957, 0.0, "0.9570"),
        (math.nan, 0.1, "not a number"),
    ],
)
def test_a_spread_shows_two_digits_of_the_deviation(mean: float, deviation: float | None, text: str) -> None:
    assert spread(mean, deviation) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.02134, "+0.0213"), (-0.41, "−0.410"), (0.0, "0"), (5850.0, "+5,850"), (-2, "−2")]
)
def test_a_difference_has_a_sign(value: float, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(-0.18, "−18 %"), (0.0834, "+8.3 %"), (0.0, "0 %"), (-0.0001, "0 %"), (12.5, "+1,250 %"), (0.0996, "+10 %")],
)
def test_a_share_is_in_percent(ratio: float, text: str) -> None:
    assert percent(ratio) == text


def test_an_interval_is_a_range() -> None:
    assert interval((2.1234, 2.3)) == "2.123 – 2.300"


def test_amounts_agree_with_their_noun() -> None:
    assert [count(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert count(2, "trial lies", "trials lie") == "2 trials lie"
    assert count(999_999_999, "legal plan") == "999,999,999 legal plans"


def test_an_amount_beyond_any_float_is_still_written() -> None:
    assert count(504 * 10**400 + 7, "legal plan") == "5.04 × 10⁴⁰² legal plans"


def test_a_list_reads_like_a_sentence() -> None:
    assert [listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def plan(*heads: int) -> HeadPlan:
    return HeadPlan.of({f"l.{i}": HeadCount(h, h, 64 // h) for i, h in enumerate(heads)})


def test_a_short_plan_stays_whole_and_a_long_one_counts_its_neighbours() -> None:
    assert short_plan(plan(8, 8, 4)) == "8-8-4"
    assert short_plan(plan(*[8] * 40, *[4] * 20, 2)) == "8 (×40), 4 (×20), 2"


def test_a_plan_without_equal_neighbours_is_cut() -> None:
    text = short_plan(plan(*[1, 2] * 60))
    assert text.startswith("1, 2, 1, 2")
    assert text.endswith("…")
    assert len(text) <= 44
