import json
from pathlib import Path

from torch import nn

from headtune.heads import HeadPlan
from headtune.surgery import save
from headtune.surgery.checkpoint import Skeleton, save_checkpoint


def test_files_that_merely_look_like_a_models_stay(tmp_path: Path) -> None:
    """Only what an earlier save wrote goes, with what was written beside it."""
    mine = (
        "buffers.safetensors",
        "config.json",
        "model_best.safetensors",
        "model.pt2",
        "model-00001-of-00002.safetensors",
    )
    for name in mine:
        (tmp_path / name).write_text("mine")
    skeleton = Skeleton(plan=HeadPlan.of({}), hold=None, params={})
    for _ in range(2):
        save_checkpoint(
            nn.Linear(2, 2), tmp_path, skeleton, beside=lambda folder: (folder / "model.onnx").write_text("beside")
        )
    assert {file.name for file in tmp_path.iterdir()} == {*mine, "model.onnx", "model.safetensors", "plan.json"}
    save(nn.Linear(2, 2), tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {*mine, "model.safetensors", "plan.json"}
    assert all((tmp_path / name).read_text() == "mine" for name in mine)


def test_a_plan_names_no_files_of_other_folders_to_go(tmp_path: Path) -> None:
    save(nn.Linear(2, 2), tmp_path / "model")
    (tmp_path / "notes").write_text("mine")
    plan = tmp_path / "model" / "plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "files": ["../notes", "..", 5, "model.safetensors"]}))
    save(nn.Linear(2, 2), tmp_path / "model")
    assert (tmp_path / "notes").exists()
