"""What is found out before anything is paid."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import SpaceError, SurgeryError, TaskError
from headtune.heads import SpaceOptions
from headtune.study import StudySpec
from headtune.study.checking import check
from headtune.trial import ChoiceParam, FloatParam, Silent, Task, TaskObject
from headtune.trial.params import baseline_values

MakeSpec = Callable[..., StudySpec]
WIDTH, FEEDFORWARD, LAYERS = 16, 32, 2


class Phases(Silent):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def phase(self, name: str, detail: str = "") -> None:
        self.seen.append((name, detail))


def test_the_tiny_task_is_seen_as_it_is(make_spec: MakeSpec) -> None:
    phases = Phases()
    checked = check(make_spec(), phases)
    assert phases.seen == [("check", "tiny.py:task")]
    assert [(site.path, site.num_heads, site.head_dim, site.embed_dim) for site in checked.sites] == [
        (f"encoder.layers.{layer}.self_attn", 4, 4, WIDTH) for layer in range(LAYERS)
    ]
    assert checked.space.size == 5**LAYERS  # each site has one of the five divisors of 16
    assert checked.baselines["present"].label == "4-4"
    assert checked.baselines["largest"].label == "16-16"
    assert all((one.rehead, one.resize) == (None, None) for one in checked.possibilities)


def test_parameters_are_those_of_the_model_counted_by_hand(make_spec: MakeSpec) -> None:
    attention = 4 * WIDTH * WIDTH + 4 * WIDTH
    feedforward = 2 * WIDTH * FEEDFORWARD + WIDTH + FEEDFORWARD
    norms = 2 * 2 * WIDTH
    head = WIDTH + 1
    assert check(make_spec()).parameters == LAYERS * (attention + feedforward + norms) + head


def test_what_the_task_lacks_is_named(make_spec: MakeSpec) -> None:
    no_evaluate = "no evaluate: the last report of train counts as the quality"
    no_test = "no test: finalists get no test score, only fresh seeds on the validation data"
    assert check(make_spec()).locked == (no_evaluate, no_test)
    assert check(make_spec({"test": True})).locked == (no_evaluate,)


def test_baselines_train_with_defaults_or_middles(make_spec: MakeSpec) -> None:
    params = {
        "lr": FloatParam(low=0.01, high=1.0, log=True),
        "dropout": FloatParam(low=0.0, high=0.5, default=0.1),
        "norm": ChoiceParam(choices=("pre", "post")),
    }
    assert baseline_values(params) == {"lr": pytest.approx(0.1), "dropout": 0.1, "norm": "pre"}


def broken_by(error: BaseException) -> Callable[..., Any]:
    def broken(*args: object) -> Any:
        raise error

    return broken


def given(spec: StudySpec, **functions: Any) -> StudySpec:
    """The study with another task: the tiny one's functions, but for *functions*."""
    task = spec.task.load()
    named: dict[str, Any] = {"model": task.model, "inputs": task.inputs, "train": task.train}
    return replace(spec, task=TaskObject(Task(**named | functions)))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(0), SystemExit(7), GeneratorExit(), BaseException("x")])
@pytest.mark.parametrize("name", ["model", "inputs"])
def test_whatever_a_function_raises_is_the_tasks_error(make_spec: MakeSpec, error: BaseException, name: str) -> None:
    with pytest.raises(TaskError) as caught:
        check(given(make_spec(), **{name: broken_by(error)}))
    assert str(caught.value).startswith(f"task.{name} raised {type(error).__name__}")
    assert f"({Path(__file__)}, line" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(0), GeneratorExit(), BaseException("x")])
def test_whatever_the_forward_pass_raises_is_told_in_words(make_spec: MakeSpec, error: BaseException) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise error

    with pytest.raises(SurgeryError, match=f"^the forward pass of Model raised {type(error).__name__}"):
        check(given(make_spec(), model=Model))


def test_ctrl_c_passes(make_spec: MakeSpec) -> None:
    with pytest.raises(KeyboardInterrupt):
        check(given(make_spec(), model=broken_by(KeyboardInterrupt())))


def test_a_space_with_nothing_but_the_present_counts_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(SpaceError) as caught:
        check(make_spec(space=SpaceOptions(hold="width", heads=(4,))))
    assert str(caught.value) == ("the space holds no other plan than the present counts 4-4: allow more in space.heads")


def test_a_model_that_does_not_take_a_plan_is_refused(make_spec: MakeSpec) -> None:
    class Fixed(nn.Module):
        """Splits into two heads, whatever its attributes say."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
            return out

    with pytest.raises(SurgeryError):
        check(given(make_spec(), model=Fixed))


def test_a_process_that_the_task_forks_ends_where_the_check_does(make_spec: MakeSpec) -> None:
    spec = make_spec()
    pids: list[int] = []

    def forking(**params: Any) -> nn.Module:
        if not pids:
            pids.append(os.fork())
        return spec.task.load().model(**params)

    found = -1
    try:
        found = check(given(spec, model=forking)).parameters
    finally:
        if pids == [0]:
            os._exit(9)  # the fork came back
    assert found == check(spec).parameters
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
