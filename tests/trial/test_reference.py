import pickle
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from torch import nn

from headtune.errors import MissingExtraError, TaskError
from headtune.trial.reference import JSON, TaskObject, TaskReference, TaskSource
from headtune.trial.task import Task

FILE = """
from math import sqrt
from pathlib import Path

from torch import nn

import headtune
from headtune.errors import MissingExtraError

calls = []


def build_model():
    return nn.Identity()


def inputs(batch_size, seq_len):
    return ()


def train(model, run):
    pass


task = headtune.Task(model=build_model, inputs=inputs, train=train)


def sized(data, *, layers=2):
    calls.append((data, layers))
    return headtune.Task(model=build_model, inputs=inputs, train=train)


def open_ended(**settings):
    return sized(settings)


def broken(depth=1):
    numbers = []
    return numbers[depth]


def lacks_a_package():
    raise MissingExtraError("needs sacrebleu: pip install 'headtune[translation]'")


def forgot_to_return():
    headtune.Task(model=build_model, inputs=inputs, train=train)


untrained = headtune.Task(model=build_model, inputs=inputs)
mixed_up = headtune.Task(model=nn.Identity(), inputs=(1, 2), train=train, evaluate={"val": 1.0})
number = 3
network = nn.Identity()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path.resolve() / "train.py"
    path.write_text(dedent(FILE).lstrip("\n"))
    return path


def reference(file: Path, attr: str, **args: JSON) -> TaskReference:
    return TaskReference(target=f"train.py:{attr}", base=file.parent, args=args)


def refused(source: TaskSource) -> tuple[str, ...]:
    with pytest.raises(TaskError) as caught:
        source.load()
    return caught.value.problems


def test_a_task_by_the_name_of_its_file(file: Path) -> None:
    loaded = reference(file, "task").load()
    assert isinstance(loaded, Task)
    assert isinstance(loaded.model(), nn.Identity)


def test_a_path_starts_at_the_base_and_may_climb(file: Path) -> None:
    (file.parent / "studies").mkdir()
    climbing = TaskReference(target="../train.py:task", base=file.parent / "studies")
    assert climbing.load() is reference(file, "task").load()
    assert TaskReference(target=f"{file}:task", base=Path("/")).load() is climbing.load()


def test_a_relative_base_means_where_it_was_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    source = TaskReference(target="train.py:task", base=Path())
    monkeypatch.chdir("/")
    assert source == reference(file, "task")
    assert isinstance(source.load(), Task)


def test_a_task_by_the_name_of_its_module(file: Path) -> None:
    package = file.parent / "package_of_a_task"
    package.mkdir()
    file.rename(package / "train.py")
    loaded = TaskReference(target="package_of_a_task.train:task", base=file.parent).load()
    assert loaded.model.__module__ == "package_of_a_task.train"


def test_a_function_is_called_once_with_the_args(file: Path) -> None:
    source = reference(file, "sized", data="folder", layers=4)
    loaded = source.load()
    assert source.load() is loaded
    assert reference(file, "sized", layers=4, data="folder").load() is loaded
    other = reference(file, "sized", data="folder").load()
    assert other is not loaded
    calls = sys.modules[other.model.__module__].calls
    assert calls == [("folder", 4), ("folder", 2)]


def test_a_function_of_any_arguments_takes_any(file: Path) -> None:
    assert isinstance(reference(file, "open_ended", a=1, b=[2]).load(), Task)


def test_it_compares_hashes_and_pickles_by_value(file: Path) -> None:
    source = reference(file, "sized", data=["a", {"b": None}], layers=1)
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert hash(copy) == hash(source)
    assert source != reference(file, "sized", data=["a"], layers=1)
    assert hash(reference(file, "sized", layers=1)) == hash(reference(file, "sized", layers=1.0))
    assert source.name == "train.py:sized"


@pytest.mark.parametrize("target", ["train.py", "package.module", "train.py:", ":task", "train.py:my task"])
def test_a_target_without_an_attribute(file: Path, target: str) -> None:
    assert refused(TaskReference(target=target, base=file.parent)) == (
        f"task {target}: names no attribute; write path/to/file.py:attr or package.module:attr",
    )


def test_an_attribute_that_is_not_there_with_near_ones(file: Path) -> None:
    assert refused(reference(file, "tsk")) == (f"task train.py:tsk: {file} defines no tsk; did you mean task?",)


def test_an_attribute_that_is_not_there_without_near_ones(file: Path) -> None:
    assert refused(reference(file, "zzz")) == (
        f"task train.py:zzz: {file} defines no zzz; did you mean build_model or inputs or train or task or sized or "
        "open_ended or broken or lacks_a_package or forgot_to_return or untrained?",
    )


def test_a_file_without_anything(file: Path) -> None:
    file.write_text("")
    assert refused(reference(file, "task")) == (
        f"task train.py:task: {file} defines no task; it defines no Task and no function",
    )


def test_args_for_a_task_that_takes_none(file: Path) -> None:
    assert refused(reference(file, "task", data="x", layers=2)) == (
        "task train.py:task: is a Task, which takes no task_args; got data, layers",
    )


def test_wrong_args_are_all_named_with_what_the_function_takes(file: Path) -> None:
    takes = "; the function takes data, layers=2"
    assert refused(reference(file, "sized", layer=3, width=4)) == (
        f"task train.py:sized: task_args has layer, which is unknown (did you mean layers?){takes}",
        f"task train.py:sized: task_args has width, which is unknown{takes}",
        f"task train.py:sized: task_args lacks data{takes}",
    )


def test_args_for_a_function_that_takes_nothing(file: Path) -> None:
    assert refused(reference(file, "forgot_to_return", data=1)) == (
        "task train.py:forgot_to_return: task_args has data, which is unknown; the function takes nothing",
    )


def test_a_function_that_raises_is_told_with_its_line(file: Path) -> None:
    line = file.read_text().splitlines().index("    return numbers[depth]") + 1
    assert refused(reference(file, "broken")) == (
        f"task train.py:broken: the function raised at {file}, line {line} (return numbers[depth]): "
        "IndexError: list index out of range",
    )


def test_headtunes_own_errors_pass_as_they_are(file: Path) -> None:
    with pytest.raises(MissingExtraError) as caught:
        reference(file, "lacks_a_package").load()
    assert str(caught.value) == "needs sacrebleu: pip install 'headtune[translation]'"


def test_what_is_no_task(file: Path) -> None:
    wanted = "it must be a headtune.Task or a function that returns one"
    assert refused(reference(file, "number")) == (f"task train.py:number: is 3 (int); {wanted}",)
    assert refused(reference(file, "Path")) == (f"task train.py:Path: is <class 'pathlib.Path'> (type); {wanted}",)
    assert refused(reference(file, "sqrt")) == (
        f"task train.py:sqrt: is <built-in function sqrt> (builtin_function_or_method); {wanted}",
    )
    assert refused(reference(file, "network")) == (f"task train.py:network: is Identity() (Identity); {wanted}",)


def test_a_function_that_returns_no_task(file: Path) -> None:
    assert refused(reference(file, "forgot_to_return")) == (
        "task train.py:forgot_to_return: returned None; it must return a headtune.Task",
    )


def test_a_task_that_cannot_be_judged(file: Path) -> None:
    assert refused(reference(file, "untrained")) == (
        "task train.py:untrained: has neither train nor evaluate; give train=(model, run) -> None, "
        "or evaluate=(model) -> {metric: value} to score kept weights as they are",
    )


def test_a_task_whose_parts_are_no_functions(file: Path) -> None:
    where = "task train.py:mixed_up"
    assert refused(reference(file, "mixed_up")) == (
        f"{where}: model must be a function, got Identity() (Identity); model=(**params) -> a new nn.Module",
        f"{where}: inputs must be a function, got (1, 2) (tuple); "
        "inputs=(batch_size, seq_len) -> tuple or dict of arguments of forward",
        f"{where}: evaluate must be a function, got {{'val': 1.0}} (dict); evaluate=(model) -> {{metric: value}}",
    )


def test_an_import_that_fails_names_the_task(tmp_path: Path) -> None:
    source = TaskReference(target="nowhere.py:task", base=tmp_path)
    assert refused(source) == (f"task nowhere.py:task: there is no file {tmp_path.resolve() / 'nowhere.py'}",)


def test_a_task_given_in_python() -> None:
    given = Task(model=nn.Identity, inputs=lambda batch_size, seq_len: (), evaluate=lambda model: {})
    source = TaskObject(given)
    assert source.load() is given
    assert source.name == "given in Python"


def test_a_task_given_in_python_is_held_to_its_contract() -> None:
    given = Task(model=nn.Identity, inputs=lambda batch_size, seq_len: ())
    assert refused(TaskObject(given)) == (
        "task given in Python: has neither train nor evaluate; give train=(model, run) -> None, "
        "or evaluate=(model) -> {metric: value} to score kept weights as they are",
    )


@pytest.mark.parametrize(
    ("target", "home"),
    [("../train.py:sized:task", "../train.py:sized"), (".train:task", ".train"), ("sub/train:task", "sub/train")],
)
def test_a_home_that_is_neither_a_file_nor_a_module(file: Path, target: str, home: str) -> None:
    with pytest.raises(TaskError) as caught:
        TaskReference(target=target, base=file.parent).load()
    assert str(caught.value) == (
        f"task {target}: {home} is neither a file nor a module; write path/to/file.py:attr or package.module:attr"
    )
