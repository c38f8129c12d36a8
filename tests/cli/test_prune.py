import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headtune
from headtune.trial.importing import import_file

Run = Callable[..., tuple[int, str, str]]
TRAINED = Path(__file__).parents[1] / "tasks" / "trained.py"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A trained model whose heads' worth is planted."""
    file = tmp_path / "trained.yaml"
    file.write_text(
        f"""\
version: 1
name: trained
task: {TRAINED}:task
space: {{hold: head_dim, weights: keep}}
objectives:
  - {{metric: likeness, direction: maximize}}
  - {{metric: latency_ms, direction: minimize}}
latency: {{batch_size: 2, max_seconds: 0.05}}
prune: {{share: 0.25}}
output: {tmp_path / "runs"}
""",
        encoding="utf-8",
    )
    return file


def test_the_curve_is_told_and_the_model_loads(run: Run, study: Path, tmp_path: Path) -> None:
    code, out, err = run("prune", study, tmp_path / "small", "--set", "prune.heads=4")
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["whole", "6", "chosen"]
    assert "prune: to 4 heads" in err
    assert err.count("heads left: ") == 3
    assert {file.name for file in (tmp_path / "small").iterdir()} == {
        *("model.safetensors", "plan.json", "pruning.json", "pruning.png")
    }
    trained = import_file(TRAINED, "trained")
    model = headtune.load(tmp_path / "small", lambda: trained.Stack(4)).eval()
    document = json.loads((tmp_path / "small" / "pruning.json").read_text(encoding="utf-8"))
    chosen = document["points"][document["chosen"]]
    assert chosen["heads"] == 4
    assert chosen["quality"]["likeness"] == trained.likeness(model, 4, 0)
    assert chosen["latency_ratio_interval"][0] <= chosen["latency_ratio"] <= chosen["latency_ratio_interval"][1]


def test_a_saved_model_is_pruned_further_and_told_as_json(run: Run, study: Path, tmp_path: Path) -> None:
    assert run("prune", study, tmp_path / "six", "--set", "prune.heads=6")[0] == 0
    code, out, err = run(
        *("prune", study, tmp_path / "some", "--from", tmp_path / "six", "--json"),
        *("--set", "prune.quality_loss=1", "--set", "prune.steps=2"),
    )
    assert code == 0, err
    document = json.loads(out)
    assert [point["heads"] for point in document["points"]] == [6, 4, 2]
    assert document["chosen"] == 2
    assert document == json.loads((tmp_path / "some" / "pruning.json").read_text(encoding="utf-8"))


def test_a_goal_that_cannot_be_reached_ends_with_the_curve_and_3(run: Run, study: Path, tmp_path: Path) -> None:
    code, out, err = run("prune", study, tmp_path / "none", "--set", "prune.heads=1")
    assert code == 3
    assert "no step gets there: asked was to 1 head; 2 heads are the fewest that can be left" in err
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["whole", "6", "4", "2"]
    assert not (tmp_path / "none" / "model.safetensors").exists()
    assert (tmp_path / "none" / "pruning.png").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], "error: prune: has no goal; give heads, latency_ratio or quality_loss, as in --set prune.heads=8"),
        (["prune.latency_ratio=2"], "prune.latency_ratio: must be a number above 0 and below 1 (got 2)"),
        (["prune.heads=4", "prune.quality_loss=0.1"], "is one goal too many beside heads; keep one"),
        (["prune.heads=4", "prune.order=best"], "prune.order"),
        (["prune.heads=4", "task_args.scored=false", "prune.steps=3"], "the task has no loss and batches"),
        (["prune.heads=4", "task_args.trains=true", "space.weights=fresh"], "name a saved one"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_written(
    run: Run, study: Path, tmp_path: Path, changes: list[str], said: str
) -> None:
    words = [word for change in changes for word in ("--set", change)]
    code, out, err = run("prune", study, tmp_path / "small", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "small").exists()


def test_a_folder_without_a_model_is_refused(run: Run, study: Path, tmp_path: Path) -> None:
    code, out, err = run("prune", study, tmp_path / "small", "--from", tmp_path, "--set", "prune.heads=4")
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert str(tmp_path) in err
