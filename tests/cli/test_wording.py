from pathlib import Path

import pytest

from headtune.cli.wording import count, duration, objective_title, place, together, value
from headtune.pareto import Objective


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.95704, "0.957"),
        (3.21456, "3.215"),
        (1204224, "1,204,224"),
        (-12345.6, "-12,346"),
        (9999.4, "9999"),
        (0, "0"),
        (1e-5, "1e-05"),
    ],
)
def test_numbers(number: float, text: str) -> None:
    assert value(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (150, "2 min"),
        (3599, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (180000, "50 h 0 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_titles_point_to_the_better_side() -> None:
    assert objective_title(Objective(metric="val_accuracy", direction="maximize")) == "val_accuracy ↑"
    assert objective_title(Objective(metric="latency_ms", direction="minimize")) == "latency_ms ↓"


@pytest.mark.parametrize(("number", "text"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials"), (2000, "2,000 trials")])
def test_counts(number: int, text: str) -> None:
    assert count(number, "trial") == text


def test_a_path_is_whole_where_the_current_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert place(tmp_path / "runs") == str(tmp_path / "runs")


def test_what_many_sites_share_is_told_once() -> None:
    many = [f"layers.{index}: 3 heads do not divide the width 16" for index in range(48)]
    assert together(["a: first", *many, "b: second", "b: second", "no site", "c: first"]) == [
        "a: first",
        "c: first",
        "layers.0, layers.1, layers.2 and 45 more: 3 heads do not divide the width 16",
        "b: second",
        "no site",
    ]
    assert together(many[:4]) == many[:4]
    assert together(many[:5]) == ["layers.0, layers.1, layers.2 and 2 more: 3 heads do not divide the width 16"]


def test_a_path_is_seen_from_the_current_folder_where_it_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert place(tmp_path / "here" / "studies" / ".." / "runs") == "runs"
    assert place(Path("runs")) == "runs"
    assert place(tmp_path / "there") == str(tmp_path / "there")
