"""A trained model is pruned to a goal, saved, and comes back as what was judged."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import headtune
from headtune.errors import StorageError
from headtune.execute import InlineExecutor
from headtune.heads import HeadPlan
from headtune.pareto import Objective
from headtune.surgery import find_sites
from headtune.timing import LatencyProtocol
from headtune.trial.importing import import_file
from headtune.trial.prune_options import PruneGoal, Shrinking
from headtune.trial.pruning_job import Pruned, PruningJob, prune_trained
from headtune.trial.reference import TaskObject
from headtune.trial.setup import TrialSetup

TASK = Path(__file__).parents[1] / "tasks" / "trained.py"
INPUTS = (torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0)),)


@pytest.fixture(scope="module")
def trained() -> ModuleType:
    return import_file(TASK, "trained")


def setup(trained: ModuleType) -> TrialSetup:
    sites = find_sites(trained.trained(4), INPUTS)
    return TrialSetup(
        task=TaskObject(trained.task()),
        sites=sites,
        hold="head_dim",
        weights="keep",
        objectives=(Objective(metric="likeness", direction="maximize"),),
        latency=LatencyProtocol(device="cpu", threads=1, batch_size=2, max_seconds=0.05),
        needs_memory=False,
        present=HeadPlan.present(sites),
    )


def pruned(given: TrialSetup, said: list[str], **job: Any) -> Pruned:
    work = PruningJob(**{"how": Shrinking(share=0.25), "trained": None, **job})
    return InlineExecutor().follow(prune_trained, given, work, say=said.append)


def test_the_model_that_reaches_the_goal_is_saved_as_it_was_judged(trained: ModuleType, tmp_path: Path) -> None:
    said: list[str] = []
    found = pruned(setup(trained), said, goal=PruneGoal(heads=4), folder=tmp_path / "small")
    assert [point.heads for point in found.points] == [8, 6, 4]
    assert [line.partition(",")[0] for line in said] == ["heads left: 8", "heads left: 6", "heads left: 4"]
    assert found.chosen == found.points[-1]
    assert all(point.latency is not None and point.latency.reference_median_ms is not None for point in found.points)
    model = headtune.load(tmp_path / "small", lambda: trained.Stack(4))
    assert found.chosen is not None
    assert trained.likeness(model.eval(), 4, 0) == found.chosen.quality["likeness"]
    assert [site.num_heads for site in headtune.sites(model, INPUTS)] == [
        len(found.chosen.mask[path]) for path in ("layers.0", "layers.1")
    ]
    assert trained.likeness(trained.trained(4), 4, 0) == 0, "the person's own model is as it was"


def test_a_saved_model_is_pruned_further(trained: ModuleType, tmp_path: Path) -> None:
    given = setup(trained)
    first = pruned(given, [], goal=PruneGoal(heads=6), folder=tmp_path / "six")
    again = pruned(given, [], goal=PruneGoal(heads=4), folder=tmp_path / "four", trained=tmp_path / "six")
    assert [point.heads for point in again.points] == [6, 4]
    assert first.chosen is not None
    assert again.points[0].quality == first.chosen.quality
    with pytest.raises(StorageError):
        pruned(given, [], goal=PruneGoal(heads=4), folder=tmp_path / "x", trained=tmp_path / "nowhere")


def test_where_no_step_gets_there_nothing_is_saved(trained: ModuleType, tmp_path: Path) -> None:
    found = pruned(setup(trained), [], goal=PruneGoal(heads=1), folder=tmp_path / "small")
    assert found.chosen is None
    assert found.points[-1].heads == 2, "one for each site"
    assert not (tmp_path / "small").exists()


def test_of_a_loss_of_quality_the_last_step_before_it_is_saved(trained: ModuleType, tmp_path: Path) -> None:
    given = setup(trained)
    whole = pruned(given, [], goal=PruneGoal(heads=2), folder=tmp_path / "all")
    losses = [-point.quality["likeness"] for point in whole.points]
    assert losses == sorted(losses)
    allowed = (losses[1] + losses[2]) / 2
    found = pruned(replace(given), [], goal=PruneGoal(quality_loss=allowed), folder=tmp_path / "some")
    assert [point.heads for point in found.points] == [8, 6, 4]
    assert found.chosen is not None
    assert found.chosen.heads == 6
