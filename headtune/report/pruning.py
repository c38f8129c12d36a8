"""The files of a pruning, beside the model that it left."""

import json
from pathlib import Path

from headtune.pareto import Objective
from headtune.report.documents import Json
from headtune.report.files import open_folder, write_whole
from headtune.report.pruning_plot import pruning_picture
from headtune.trial.pruning_job import Pruned
from headtune.trial.shrinking import PrunePoint


def write_pruning(found: Pruned, quality: Objective, folder: Path) -> tuple[Path, ...]:
    """Write ``pruning.json`` and ``pruning.png`` into *folder*.

    Returns:
        The files that were written.

    Raises:
        StorageError: the folder cannot be written.
    """
    open_folder(folder)
    text = json.dumps(pruning_document(found, quality), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return (
        write_whole(folder / "pruning.json", text.encode("utf-8", "backslashreplace")),
        write_whole(folder / "pruning.png", pruning_picture(found, quality).png()),
    )


def pruning_document(found: Pruned, quality: Objective) -> Json:
    """The curve as JSON: a point for each step, the whole model first."""
    return {
        "quality": {"metric": quality.metric, "direction": quality.direction},
        "points": [_point(point) for point in found.points],
        "chosen": None if found.chosen is None else found.points.index(found.chosen),
    }


def _point(point: PrunePoint) -> Json:
    latency = point.latency
    return {
        "heads": point.heads,
        "kept": {path: list(heads) for path, heads in point.mask.kept},
        "parameters": point.parameters,
        "quality": dict(point.quality),
        "latency_ratio": None if latency is None else latency.ratio,
        "latency_ratio_interval": None if latency is None else list(latency.ratio_interval),
    }
