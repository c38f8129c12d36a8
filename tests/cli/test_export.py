import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import headtune
from headtune.surgery import find_sites
from headtune.trial.importing import import_file

Run = Callable[..., tuple[int, str, str]]
TINY = Path(__file__).parents[1] / "tasks" / "tiny.py"


@pytest.fixture
def finished(run: Run, study: Path) -> Path:
    """A study that has been searched."""
    code, _, err = run("search", study)
    assert code == 0, err
    return study


@torch.no_grad()
def test_the_recommended_model_loads_and_its_program_agrees(run: Run, finished: Path, tmp_path: Path) -> None:
    code, out, err = run("export", finished, tmp_path / "small", "--format", "torch")
    assert code == 0, err
    assert [Path(line).name for line in out.split()] == ["small", "model.pt2"]
    tiny = import_file(TINY, "tiny")
    model = headtune.load(tmp_path / "small", lambda: tiny.Summer(2, 0.0)).eval()
    (recommended,) = [row for row in json.loads(run("front", finished, "--json")[1])["plans"] if row["recommended"]]
    x = tiny.inputs(4, 6)
    assert [site.num_heads for site in find_sites(model, x)] == [count[0] for count in recommended["plan"].values()]
    # The exported kernels may add in another order: float32.
    program = torch.export.load(tmp_path / "small" / "model.pt2").module()
    torch.testing.assert_close(program(*x), model(*x), rtol=1e-5, atol=1e-5)
    assert "weights: the model that the verification left in " in err


def test_a_named_plan(run: Run, finished: Path, tmp_path: Path) -> None:
    code, _, err = run("export", finished, tmp_path / "eight", "--plan", "*=8")
    assert code == 0, err
    assert sorted(file.name for file in (tmp_path / "eight").iterdir()) == ["model.safetensors", "plan.json"]
    tiny = import_file(TINY, "tiny")
    model = headtune.load(tmp_path / "eight", lambda: tiny.Summer(2, 0.0))
    assert [site.num_heads for site in find_sites(model, tiny.inputs(3, None))] == [8, 8]


def test_what_is_wrong_is_told(run: Run, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("export", finished, tmp_path / "x", "--format", "tflite")
    assert (code, out) == (2, "")
    assert "error: --format must be headtune, torch or onnx (got 'tflite')" in err
    code, out, err = run("export", finished, tmp_path / "x", "--plan", "*=3")
    assert (code, out) == (2, "")
    assert "3 heads do not divide the width 16" in err
    monkeypatch.setattr("headtune.surgery.programs.find_spec", lambda name: None)
    code, out, err = run("export", finished, tmp_path / "x", "--format", "onnx")
    assert (code, out) == (2, "")
    assert "pip install 'headtune[onnx]'" in err
    (tmp_path / "file").write_text("")
    code, out, err = run("export", finished, tmp_path / "file")
    assert (code, out) == (2, "")
    assert not (tmp_path / "x").exists()


def test_a_study_without_a_search(run: Run, study: Path, tmp_path: Path) -> None:
    code, out, err = run("export", study, tmp_path / "x")
    assert (code, out) == (2, "")
    assert "run the search first" in err


def test_an_export_replaces_all_of_an_earlier_one(run: Run, finished: Path, tmp_path: Path) -> None:
    for extra in (["--format", "torch"], []):
        code, _, err = run("export", finished, tmp_path / "small", *extra)
        assert code == 0, err
        names = sorted(file.name for file in (tmp_path / "small").iterdir())
        assert names == ["model.pt2"] * bool(extra) + ["model.safetensors", "plan.json"]
