import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

TASKS = """
import torch
from torch import nn
import headtune

class NoAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x)

def inputs(batch_size, seq_len):
    return (torch.randn(batch_size, 4, 8),)

def train(model, run):
    run.report(quality=1.0)

def encoder(dim=8, heads=2):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, heads, 16, batch_first=True), 1)

def broken_model():
    raise RuntimeError("no weights on this disk")

def broken_inputs(batch_size, seq_len):
    return (torch.randn(batch_size, 4, 9),)

def attention_free(): return headtune.Task(model=NoAttention, inputs=inputs, train=train)
def no_model(): return headtune.Task(model=broken_model, inputs=inputs, train=train)
def wrong_inputs(): return headtune.Task(model=encoder, inputs=broken_inputs, train=train)
def no_training(): return headtune.Task(model=encoder, inputs=inputs)
def prime(): return headtune.Task(model=lambda: encoder(7, 1), inputs=lambda b, t: (torch.randn(b, 4, 7),), train=train)
def fails(): raise KeyError("HOME_OF_DATA")
def needs(data): return attention_free()
no_task = 3
"""


@pytest.fixture
def of(tmp_path: Path) -> Callable[..., Path]:
    """A study of one of the tasks above."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "syntax.py").write_text("def task(:\n")
    (tmp_path / "missing.py").write_text("import a_package_that_is_not_there\n")

    def write(task: str, more: str = "") -> Path:
        path = tmp_path / "study.yaml"
        path.write_text(
            f"version: 1\nname: x\ntask: {task}\nspace: {{hold: width, weights: fresh}}\n"
            f"objectives: [{{metric: quality, direction: maximize}}]\nresources: {{executor: inline}}\n{more}"
        )
        return path

    return write


def test_it_shows_the_sites_what_is_possible_and_what_is_locked(run: Run, study: Path) -> None:
    code, out, err = run("check", study)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert lines[2] == ["encoder.layers.0.self_attn", "self", "yes", "yes", "16", "4", "4", "4"]
    assert lines[3] == ["encoder.layers.1.self_attn", "self", "yes", "yes", "16", "4", "4", "4"]
    assert "2 attention sites, 4,465 parameters, 25 legal plans.\n" in out
    assert "Optional: no evaluate" in out
    assert "Optional: no test" in out
    assert out.endswith("This study can run.\n")
    assert err.startswith("check: ")


def test_json(run: Run, study: Path) -> None:
    code, out, _ = run("check", study, "--json", "--set", "task_args={layers: 3}")
    document = json.loads(out)
    assert code == 0
    assert [site["path"] for site in document["sites"]] == [f"encoder.layers.{layer}.self_attn" for layer in range(3)]
    assert (document["plans"], document["parameters"]) == (
        125,
        3 * 2224 + 17,
    )  # 2,224 weights a layer of width 16, and 17 behind them


@pytest.mark.parametrize(
    ("task", "sentences"),
    [
        ("tasks.py:attention_free", ["no attention"]),
        ("tasks.py:no_model", ["task.model raised RuntimeError: no weights on this disk", "in broken_model"]),
        ("tasks.py:wrong_inputs", ["forward"]),
        ("tasks.py:no_training", ["has neither train nor evaluate"]),
        ("tasks.py:fails", ["KeyError", "HOME_OF_DATA"]),
        ("tasks.py:needs", ["task_args lacks data"]),
        ("tasks.py:no_task", ["it must be a headtune.Task or a function that returns one"]),
        ("tasks.py:atention_free", ["did you mean attention_free?"]),
        ("syntax.py:task", ["SyntaxError", "line 1"]),
        ("missing.py:task", ["a_package_that_is_not_there"]),
        ("no_such_module:task", ["there is no module no_such_module"]),
    ],
)
def test_a_task_that_cannot_be_used_exits_2_and_says_why(
    run: Run, of: Callable[..., Path], task: str, sentences: list[str]
) -> None:
    code, out, err = run("check", of(task))
    assert (code, out, "Traceback" in err) == (2, "", False), err
    error = err.partition("error: ")[2]
    assert all(sentence in error for sentence in sentences), err


def test_what_a_model_cannot_have_is_named(run: Run, of: Callable[..., Path]) -> None:
    path = of("tasks.py:prime", "constraints: {head_dim: {multiple_of: 2}}\n")
    code, out, err = run("check", path)
    assert (code, out) == (2, "")
    assert "head_dim" in err


def test_a_site_that_does_not_match_is_named_with_the_sites(run: Run, study: Path) -> None:
    code, _, err = run("check", study, "--set", 'space.sites."decoder.*".heads=[2]')
    assert code == 2
    assert "'decoder.*' matches no site; sites: encoder.layers.0.self_attn, encoder.layers.1.self_attn" in err
