from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headtune.config.problems import explain
from headtune.config.schema import StudyFile

TASK = "task = None\n"

FULL = """\
version: 1
name: digits-vit
task: train.py:task
task_args: {data: ../digits}
seed: 3
space:
  hold: head_dim
  weights: fresh
  heads: {min: 1, max: 16, divisible_by: 2}
  tie: {stages: 2}
  sites:
    "role=cross": {heads: [1, 2, 4]}
    "encoder.*": {kv_heads: auto}
  kv_heads: same
  head_dims: [16, 32]
  params:
    lr: {low: 1e-4, high: 1e-2, log: true}
    layers: {low: 1, high: 4, type: int, default: 2}
    optimizer: [adamw, sgd]
objectives:
  - {metric: val_accuracy, direction: maximize}
  - {metric: latency_ms, direction: minimize}
constraints:
  head_dim: {min: 4, multiple_of: 4}
  latency_ms: {max_ratio: 1.5, of: present}
  latency_ms@64: {max: 4}
  parameters: {max: 2e6}
  peak_memory_mb: {max: 8000}
latency:
  device: cpu
  threads: 2
  dtype: float32
  autocast: bfloat16
  batch_size: 8
  seq_len: [64, 128]
  mode: train_step
  compile: true
  cuda_graphs: false
  precision: 0.05
  max_seconds: 4
search:
  trials: 12
  timeout: 1h30m
  sampler: tpe
  epochs: 7
  stop_early: false
  evaluator: supernet
verify:
  top: 4
  seeds: 2
  max_seeds: 6
prune:
  heads: 24
  share: 0.2
  order: once
  steps: 50
  lr: 1.0e-3
  alpha: 0.7
  temperature: 3
  match: states
resources:
  cpus: 2
  gpus: 0.5
  concurrent: 3
  cluster: auto
  node: far
  accelerator: A100
  executor: ray
output: out
storage: sqlite:///kept.db
"""

SMALL = """\
version: 1
name: small
task: train.py:task
space:
  hold: width
  weights: fresh
objectives:
  - {metric: val_loss, direction: minimize}
"""


@pytest.fixture(scope="session")
def full() -> str:
    """A study that uses every key."""
    return FULL


@pytest.fixture(scope="session")
def small() -> str:
    """A study with nothing but the required keys."""
    return SMALL


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a study file beside a train.py."""
    (tmp_path / "train.py").write_text(TASK)

    def write_text(text: str) -> Path:
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


NEEDED: dict[str, Any] = {
    "version": 1,
    "name": "x",
    "task": "package.module:task",
    "space": {"hold": "width", "weights": "fresh"},
    "objectives": [{"metric": "val_loss", "direction": "minimize"}],
}


@pytest.fixture
def parse() -> Callable[..., StudyFile]:
    """A study file with the required keys and others."""
    return lambda **keys: StudyFile.model_validate({**NEEDED, **keys}, context=Path("/nowhere"))


@pytest.fixture
def problems(parse: Callable[..., StudyFile]) -> Callable[..., dict[str, str]]:
    """What is wrong with a study file that has the required keys and others, by the path of the key."""

    def find(**keys: object) -> dict[str, str]:
        with pytest.raises(ValidationError) as caught:
            parse(**keys)
        found = [problem for error in caught.value.errors() for problem in explain(error, StudyFile)]
        return {".".join(map(str, where)): sentence for where, sentence in found}

    return find
