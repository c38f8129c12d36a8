import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Run = Callable[..., Any]

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

class Pieced(nn.Module):
    # Five attentions over one feature, where nothing can be split, and one over all.
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(1, 1, batch_first=True) for _ in range(5))
        self.last = nn.MultiheadAttention(8, 2, batch_first=True)
    def forward(self, x):
        for layer in self.layers:
            one = x[..., :1]
            x = x + layer(one, one, one, need_weights=False)[0]
        return self.last(x, x, x, need_weights=False)[0]

class Nano(nn.Module):
    # A number of heads, and no word for shared key/value heads.
    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).flatten(2))

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
def nano(): return headtune.Task(model=lambda: nn.Sequential(Nano()), inputs=inputs, train=train)
def pieced(): return headtune.Task(model=Pieced, inputs=inputs, train=train)
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
    assert lines[2] == ["encoder.layers.0.self_attn", "self", "yes", "yes", "yes", "yes", "16", "4", "4", "4"]
    assert lines[3] == ["encoder.layers.1.self_attn", "self", "yes", "yes", "yes", "yes", "16", "4", "4", "4"]
    assert "2 attention sites, 4,465 parameters, 25 legal plans.\n" in out
    assert "Optional: no evaluate" in out
    assert "Optional: no test" in out
    assert out.endswith("This study can run.\n")
    assert err.startswith("check: ")


def test_a_block_with_no_word_for_shared_heads_is_told_from_one_that_shares(run: Run, of: Callable[..., Path]) -> None:
    code, out, _ = run("check", of("tasks.py:nano"))
    assert code == 0
    assert out.splitlines()[2].split() == ["0", "self", "yes", "yes", "yes", "repeated", "8", "2", "2", "4"]
    assert (
        "Merge kv, repeated: forward has no word for shared key/value heads, so a projection makes each once and "
        "repeats it; weights shrink, but neither attention nor a cache of keys and values.\n"
    ) in out
    (site,) = json.loads(run("check", of("tasks.py:nano"), "--json")[1])["sites"]
    assert (site["refused"]["merge kv"], site["merge_repeats"]) == (None, True)


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


def test_what_is_not_tested_is_said(run: Run, study: Path) -> None:
    limits = "constraints={latency_ms: {max_ratio: 1.5, of: present}, parameters: {max: 2e6}, head_dim: {min: 2}}"
    assert run("check", study, "--set", limits).out.splitlines()[-2:] == [
        "Not tested here, since it takes measuring: latency_ms ≤ 1.5 × present, parameters ≤ 2,000,000 weights.",
        "This study can run.",
    ]
    assert "Not tested" not in run("check", study).out


def test_one_of_everything_is_singular(run: Run, study: Path) -> None:
    out = run("check", study, "--set", "task_args.layers=1").out
    assert "\n1 attention site, 2,241 parameters, 5 legal plans.\n" in out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("resources={executor: ray, gpus: 1}", "resources.gpus is 1, which must be 0 without a GPU: "),
        ("latency.device=cuda", "latency.device is cuda: "),
    ],
)
@pytest.mark.parametrize("verb", ["check", "measure", "search"])
def test_a_gpu_that_is_not_there(run: Run, study: Path, verb: str, setting: str, place: str) -> None:
    code, out, err = run(verb, study, "--set", setting)
    assert (code, out) == (2, "")
    assert f"error: {place}cuda asked, no CUDA device: torch {torch.__version__} " in err
    assert err.endswith("; set device to auto or cpu\n")


def test_sites_with_the_same_trouble_are_told_once(run: Run, of: Callable[..., Path]) -> None:
    code, out, err = run("check", of("tasks.py:pieced"))
    assert code == 0, err
    told = [line for line in out.splitlines() if line.startswith("No re-head: ")]
    assert len(told) == 1
    assert told[0] == "No re-head: layers.0, layers.1, layers.2 and 2 more: no other count divides its width 1"
    code, _, err = run("measure", of("tasks.py:pieced"), "--plan", "layers.*=3")
    assert (code, err.splitlines()[1:]) == (
        2,
        ["error: layers.0, layers.1, layers.2 and 2 more: 3 heads do not divide the width 1; legal: 1"],
    )
