"""The files of a pruning."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headtune.heads import HeadMask
from headtune.pareto import Objective
from headtune.report.pruning import pruning_document, write_pruning
from headtune.report.pruning_plot import pruning_picture
from headtune.study import StudyRecord
from headtune.timing import LatencyProfile
from headtune.trial.pruning_job import Pruned
from headtune.trial.shrinking import PrunePoint

QUALITY = Objective(metric="accuracy", direction="maximize")


@pytest.fixture
def profile(record: StudyRecord) -> LatencyProfile:
    """Any that was measured."""
    return next(trial.latency for trial in record.trials if trial.latency is not None)


def pruned(profile: LatencyProfile | None, chosen: int | None = 1) -> Pruned:
    points = tuple(
        PrunePoint(
            mask=HeadMask.of({"a": range(heads), "b": [0]}),
            quality={"accuracy": accuracy, "loss": 1.0},
            latency=None
            if profile is None
            else replace(profile, ratio=ratio, ratio_interval=(ratio - 0.1, ratio + 0.1)),
            parameters=100 * heads,
        )
        for heads, accuracy, ratio in ((7, 0.9, 1.0), (5, 0.92, 0.8), (3, 0.7, 0.6))
    )
    return Pruned(points=points, chosen=None if chosen is None else points[chosen])


def test_the_picture_shows_both_curves_and_what_was_chosen(profile: LatencyProfile) -> None:
    picture = pruning_picture(pruned(profile), QUALITY)
    upper, lower = picture.figure.axes
    curve, mark = upper.lines
    assert curve.get_xydata().tolist() == [[8, 0.9], [6, 0.92], [4, 0.7]]
    assert mark.get_xydata().tolist() == [[6, 0.92]]
    assert lower.lines[1].get_xydata().tolist() == [[8, 1.0], [6, 0.8], [4, 0.6]]
    assert lower.lines[2].get_xydata().tolist() == [[6, 0.8]]
    left, right = upper.get_xlim()
    assert left > right, "the whole model stands at the left"
    assert picture.alt == "accuracy and latency of 3 models with ever fewer heads."


def test_a_goal_that_was_missed_has_no_mark(profile: LatencyProfile) -> None:
    upper, lower = pruning_picture(pruned(profile, chosen=None), QUALITY).figure.axes
    assert (len(upper.lines), len(lower.lines)) == (1, 2)


@pytest.mark.parametrize("timed", [True, False])
def test_the_document_says_what_each_step_was(profile: LatencyProfile, tmp_path: Path, timed: bool) -> None:
    found = pruned(profile if timed else None)
    document, picture = write_pruning(found, QUALITY, tmp_path / "made")
    assert json.loads(document.read_text(encoding="utf-8")) == pruning_document(found, QUALITY)
    assert pruning_document(found, QUALITY) == {
        "quality": {"metric": "accuracy", "direction": "maximize"},
        "points": [
            {
                "heads": heads,
                "kept": {"a": list(range(heads - 1)), "b": [0]},
                "parameters": 100 * (heads - 1),
                "quality": {"accuracy": accuracy, "loss": 1.0},
                "latency_ratio": ratio if timed else None,
                "latency_ratio_interval": [ratio - 0.1, ratio + 0.1] if timed else None,
            }
            for heads, accuracy, ratio in ((8, 0.9, 1.0), (6, 0.92, 0.8), (4, 0.7, 0.6))
        ],
        "chosen": 1,
    }
    assert picture.read_bytes().startswith(b"\x89PNG")
