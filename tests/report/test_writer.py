import json
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from PIL import Image

import headtune.report
from headtune.errors import InputError, StorageError
from headtune.report import front_trials, write_report
from headtune.report.figure_style import DPI
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]
FILES = ("trials.csv", "front.csv", "front.json", "latency.json", "report.html")


def test_the_public_face_is_sorted_and_there() -> None:
    assert sorted(headtune.report.__all__) == headtune.report.__all__
    assert all(name in vars(headtune.report) for name in headtune.report.__all__)


def test_every_file_of_the_report_is_written(report: Path) -> None:
    pictures = ("front", "sites", "influence", "curves", "hypervolume", "latency")
    expected = {report / name for name in FILES} | {report / f"figures/{name}.png" for name in pictures}
    assert {path for path in report.rglob("*") if path.is_file()} == expected


def test_the_files_hold_the_study(record: StudyRecord, report: Path) -> None:
    assert len(pd.read_csv(report / "trials.csv")) == len(record.trials) + len(record.verify_trials)
    assert list(pd.read_csv(report / "front.csv")["number"]) == [trial.number for trial in front_trials(record)]
    assert json.loads((report / "front.json").read_text("utf-8"))["study"]["name"] == "digits-vit"
    assert len(json.loads((report / "latency.json").read_text("utf-8"))["range"]) == 4
    assert (report / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_pictures_are_sharp_enough_for_print(report: Path) -> None:
    paths = list((report / "figures").iterdir())
    assert paths
    for path in paths:
        with Image.open(path) as image:
            assert image.width == 8 * DPI
            darkest, lightest = image.convert("L").getextrema()
            assert (darkest < 100, lightest) == (True, 255)


def test_writing_again_gives_the_same_bytes_and_touches_nothing_else(
    record: StudyRecord, report: Path, tmp_path: Path
) -> None:
    output = tmp_path / "runs" / "digits-vit"
    output.mkdir(parents=True)
    (output / "study.db").write_bytes(b"durable")
    (output / "trials.csv").write_bytes(b"old")
    before = dict(mpl.rcParams)
    written = {path.relative_to(output): path.read_bytes() for path in write_report(record, output)}
    assert written == {path.relative_to(report): path.read_bytes() for path in report.rglob("*") if path.is_file()}
    assert (output / "study.db").read_bytes() == b"durable"
    assert dict(mpl.rcParams) == before


def test_a_file_in_the_way_is_named(record: StudyRecord, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    with pytest.raises(StorageError) as caught:
        write_report(record, tmp_path / "runs")
    assert caught.value.problems == (
        f"{tmp_path}/runs: the report cannot be written there (File exists); "
        "name a folder that you may write to with `output`",
    )
    assert caught.value.exit_code == 2


def test_a_folder_below_a_file_is_named(record: StudyRecord, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    with pytest.raises(StorageError, match=r"runs/vit: the report cannot be written there \(Not a directory\)"):
        write_report(record, tmp_path / "runs" / "vit")


def test_partial_studies_are_written(partial: StudyRecord, partial_report: Path) -> None:
    assert {partial_report / name for name in FILES} <= set(partial_report.iterdir())
    assert all(path.stat().st_size > 0 for path in partial_report.rglob("*"))
    front = any(trial.outcome is Outcome.OK for trial in partial.trials)
    expected = {
        "front": front,
        "sites": front,
        "influence": any(one.shares for one in partial.influences),
        "curves": any(trial.curve for trial in partial.trials)
        and any(not goal.measured for goal in partial.objectives),
        "hypervolume": partial.reference_point is not None,
        "latency": partial.latency_range is not None,
    }
    drawn = {path.stem for path in (partial_report / "figures").iterdir()}
    assert drawn == {name for name, there in expected.items() if there}


def test_arguments_of_the_wrong_type_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        write_report(None, 5)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "write_report: study: must be a Study, or the StudyRecord of one (got None)",
        "write_report: output: must be the path of a folder (got 5)",
    )
