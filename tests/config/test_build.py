from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.config.load import load_study
from headtune.heads import HeadDimConstraint, HeadRange, Limit, SiteOptions, SpaceOptions, Stages
from headtune.pareto import Objective
from headtune.study.spec import PruneOptions, Resources, SearchOptions, StudySpec, VerifyOptions
from headtune.timing import LatencyProtocol
from headtune.trial.params import ChoiceParam, FloatParam, IntParam
from headtune.trial.prune_options import PruneGoal, Shrinking
from headtune.trial.reference import TaskReference

Write = Callable[[str], Path]


def test_every_key_of_the_file_reaches_the_study(write: Write, full: str) -> None:
    path = write(full)
    folder = path.parent
    assert load_study(path) == StudySpec(
        name="digits-vit",
        task=TaskReference(target="train.py:task", base=folder, args={"data": "../digits"}),
        seed=3,
        space=SpaceOptions(
            hold="head_dim",
            heads=HeadRange(min=1, max=16, divisible_by=2),
            tie=Stages(2),
            sites={"role=cross": SiteOptions(heads=[1, 2, 4]), "encoder.*": SiteOptions(kv_heads="auto")},
            kv_heads="same",
            head_dims=[16, 32],
            head_dim=HeadDimConstraint(min=4, multiple_of=4),
        ),
        weights="fresh",
        params={
            "lr": FloatParam(low=1e-4, high=1e-2, log=True),
            "layers": IntParam(low=1, high=4, default=2),
            "optimizer": ChoiceParam(choices=("adamw", "sgd")),
        },
        objectives=(
            Objective(metric="val_accuracy", direction="maximize"),
            Objective(metric="latency_ms", direction="minimize"),
        ),
        limits=(
            Limit(metric="latency_ms", max_ratio=1.5, of="present"),
            Limit(metric="latency_ms@64", max=4),
            Limit(metric="parameters", max=2e6),
            Limit(metric="peak_memory_mb", max=8000),
        ),
        latency=LatencyProtocol(
            device="cpu",
            threads=2,
            autocast="bfloat16",
            batch_size=8,
            seq_len=(64, 128),
            mode="train_step",
            compile=True,
            precision=0.05,
            max_seconds=4,
        ),
        search=SearchOptions(
            trials=12, timeout_s=5400, sampler="tpe", epochs=7, stop_early=False, evaluator="supernet"
        ),
        verify=VerifyOptions(top=4, seeds=2, max_seeds=6),
        prune=PruneOptions(
            goal=PruneGoal(heads=24),
            how=Shrinking(share=0.2, order="once", steps=50, lr=1e-3, alpha=0.7, temperature=3, match="states", seed=3),
        ),
        resources=Resources(cpus=2, gpus=0.5, concurrent=3, cluster="auto", node="far", accelerator="A100"),
        executor="ray",
        output=folder / "out",
        storage=f"sqlite:///{folder / 'kept.db'}",
    )


def test_a_study_of_the_required_keys_has_the_defaults_of_the_study_itself(write: Write, small: str) -> None:
    path = write(small)
    folder = path.parent
    assert load_study(path) == StudySpec(
        name="small",
        task=TaskReference(target="train.py:task", base=folder),
        space=SpaceOptions(hold="width"),
        weights="fresh",
        objectives=(Objective(metric="val_loss", direction="minimize"),),
        output=folder / "runs" / "small",
        storage=f"sqlite:///{folder / 'runs' / 'small' / 'study.db'}",
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("sqlite:///kept.db", "sqlite:///{folder}/kept.db"),
        ("sqlite:///sub/../kept.db", "sqlite:///{folder}/kept.db"),
        ("sqlite:////var/kept.db", "sqlite:////var/kept.db"),
        ("sqlite+pysqlite:///kept.db", "sqlite+pysqlite:///{folder}/kept.db"),
        ("sqlite:///~/kept.db", "sqlite:////home/somebody/kept.db"),
        ("postgresql://user:word@host:5432/name", "postgresql://user:word@host:5432/name"),
    ],
)
def test_storages(write: Write, small: str, written: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    path = write(f"{small}storage: {written}\n")
    assert load_study(path).storage == expected.format(folder=path.parent)


def test_the_storage_lies_in_the_output(write: Write, small: str) -> None:
    path = write(f"{small}output: ../made\n")
    spec = load_study(path)
    assert spec.output == (path.parent / "../made").resolve()
    assert spec.storage == f"sqlite:///{(path.parent / '../made').resolve() / 'study.db'}"


def test_the_home_folder_is_written_out(
    write: Write, small: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = write(small.replace("train.py", "~/train.py") + "output: ~/made\n")
    spec = load_study(path)
    assert spec.output == tmp_path / "made"
    assert spec.task == TaskReference(target=f"{tmp_path}/train.py:task", base=path.parent)


def test_links_that_lead_nowhere_are_left_to_who_opens_them(write: Write, small: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert load_study(write(f"{small}output: loop/made\n")).output == tmp_path / "loop" / "made"


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("{low: 0.0, high: 1}", FloatParam(low=0.0, high=1.0)),
        ("{low: 0, high: 1, type: float, default: 1}", FloatParam(low=0.0, high=1.0, default=1.0)),
        ("{low: 1, high: 8, type: int, log: true}", IntParam(low=1, high=8, log=True)),
        ("[2, true, a]", ChoiceParam(choices=(2, True, "a"))),
        ("{choices: [0.1, 0.2], default: 0.2}", ChoiceParam(choices=(0.1, 0.2), default=0.2)),
    ],
)
def test_params(write: Write, small: str, text: str, param: object) -> None:
    path = write(small.replace("  weights: fresh\n", f"  weights: fresh\n  params: {{p: {text}}}\n"))
    found = load_study(path).params["p"]
    assert (found, type(found)) == (param, type(param))
