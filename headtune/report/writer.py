"""The report: every file of a study, written whole."""

import json
from pathlib import Path

import pandas as pd

import headtune.rules as rules
from headtune.errors import InputError
from headtune.report.curves_plot import curves_picture
from headtune.report.documents import Json, front_document, latency_document
from headtune.report.figure_style import Picture
from headtune.report.files import open_folder, write_whole
from headtune.report.front_plot import front_picture
from headtune.report.front_rows import front_table
from headtune.report.hypervolume_plot import hypervolume_picture
from headtune.report.influence_plot import influence_picture
from headtune.report.latency_plot import latency_picture
from headtune.report.page import render_page
from headtune.report.sites_plot import sites_picture
from headtune.report.tables import front_frame, trials_frame
from headtune.study.record import StudyRecord
from headtune.study.session import Study


def write_report(study: Study | StudyRecord, output: Path | str) -> tuple[Path, ...]:
    """Write the report of a study, finished or not, into the folder *output*.

    ``trials.csv``, ``front.csv``, ``front.json``, ``latency.json``, ``figures/*.png`` and ``report.html``, the last one
    self-contained. Each file is replaced whole; a picture that the study cannot fill yet is left out.

    Returns:
        The files that were written.

    Raises:
        InputError: an argument is of the wrong type (every one).
        StorageError: *output* cannot be written, or the study holds nothing yet.
    """
    _check_arguments(study, output)
    record = study.record() if isinstance(study, Study) else study
    folder, figures = open_folder(Path(output)), open_folder(Path(output) / "figures")
    pictures = draw_pictures(record)
    page = render_page(record, front_table(record), {picture.name: picture for picture in pictures})
    return (
        write_whole(folder / "trials.csv", _csv(trials_frame(record))),
        write_whole(folder / "front.csv", _csv(front_frame(record))),
        write_whole(folder / "front.json", _json(front_document(record))),
        write_whole(folder / "latency.json", _json(latency_document(record))),
        *(write_whole(figures / f"{picture.name}.png", picture.png()) for picture in pictures),
        write_whole(folder / "report.html", page.encode("utf-8", "backslashreplace")),
    )


def _check_arguments(study: object, output: object) -> None:
    problems = rules.broken(
        {
            "study": (study, rules.a((Study, StudyRecord), "a Study, or the StudyRecord of one")),
            "output": (output, rules.a((Path, str), "the path of a folder")),
        }
    )
    if problems:
        raise InputError(*(f"write_report: {problem}" for problem in problems))


def draw_pictures(record: StudyRecord) -> tuple[Picture, ...]:
    """The pictures that the study can fill."""
    rows = front_table(record)
    drawn = (
        front_picture(record, rows),
        sites_picture(record, rows),
        influence_picture(record),
        curves_picture(record, rows),
        hypervolume_picture(record),
        latency_picture(record),
    )
    return tuple(picture for picture in drawn if picture is not None)


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode("utf-8", "backslashreplace")


def _json(document: Json) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )
