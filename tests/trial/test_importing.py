import os
import pickle
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from headtune.errors import TaskError
from headtune.trial.importing import failure, file_of, import_file, import_module


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"))
    return path.resolve()


def refused(path: Path) -> str:
    with pytest.raises(TaskError) as caught:
        import_file(path, "task")
    return str(caught.value)


@pytest.fixture(autouse=True)
def same_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "created = object()")
    assert import_file(path, "task").created is import_file(path, "task").created


def test_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    paths = [write(tmp_path / folder / "train.py", f"folder = {folder!r}") for folder in ("a", "b")]
    assert [import_file(path, "task").folder for path in paths] == ["a", "b"]


def test_the_files_beside_it_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path / "beside_the_task.py", "value = 7")
    path = write(tmp_path / "train.py", "def late():\n    from beside_the_task import value\n    return value\n")
    assert import_file(path, "task").late() == 7
    assert sys.path[0] == str(tmp_path.resolve())


def test_what_runs_alone_does_not_run(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", 'name = __name__\nif __name__ == "__main__":\n    raise RuntimeError\n')
    module = import_file(path, "task")
    assert module.name.startswith("headtune_task_train_")


def test_instances_of_its_classes_pickle(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "class Model:\n    pass\n")
    module = import_file(path, "task")
    assert type(pickle.loads(pickle.dumps(module.Model()))) is module.Model


def test_the_running_script_is_not_imported_again(tmp_path: Path) -> None:
    script = write(
        tmp_path / "script.py",
        """
        from pathlib import Path
        from headtune.trial.importing import import_file

        print("imported as", __name__)
        assert import_file(Path(__file__).resolve(), "task").__name__ == "__main__"
        """,
    )
    done = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == "imported as __main__\n"


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "train.py"
    assert refused(path) == f"task: there is no file {path}"


def test_a_missing_file_with_a_near_name(tmp_path: Path) -> None:
    write(tmp_path / "training.py", "")
    path = tmp_path.resolve() / "trainin.py"
    assert refused(path) == f"task: there is no file {path}; did you mean training.py?"


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "nowhere" / "train.py"
    assert refused(path) == f"task: there is no file {path}"


def test_an_error_in_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "import os\n\nimport no_such_package_anywhere\n")
    assert refused(path) == (
        f"task: importing it failed at {path}, line 3 (import no_such_package_anywhere): "
        "ModuleNotFoundError: No module named 'no_such_package_anywhere'"
    )


def test_an_error_below_the_file_is_told_with_the_persons_last_line(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", 'import json\nsettings = json.loads("{")\n')
    assert refused(path) == (
        f'task: importing it failed at {path}, line 2 (settings = json.loads("{{")): JSONDecodeError: '
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )


def test_an_error_in_a_file_beside_it_is_told_with_that_files_line(tmp_path: Path) -> None:
    beside = write(tmp_path / "broken_beside.py", "value = 1 / 0\n")
    path = write(tmp_path / "train.py", "import broken_beside\n")
    assert refused(path) == (
        f"task: importing it failed at {beside}, line 1 (value = 1 / 0): ZeroDivisionError: division by zero"
    )


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "ok = 1\nif ok\n    pass\n")
    assert refused(path) == f"task: importing it failed at {path}, line 2: SyntaxError: expected ':'"


def test_a_file_that_exits(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "import sys\nsys.exit(3)\n")
    assert refused(path) == (
        f"task: importing it failed at {path}, line 2 (sys.exit(3)): SystemExit: 3; "
        'put what runs alone under if __name__ == "__main__":'
    )


def test_an_error_of_headtunes_own_keeps_its_problems(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", 'from headtune.errors import TaskError\nraise TaskError("one", "two")\n')
    with pytest.raises(TaskError) as caught:
        import_file(path, "task")
    line = f'task: importing it failed at {path}, line 2 (raise TaskError("one", "two"))'
    assert caught.value.problems == (f"{line}: one", f"{line}: two")


def test_a_failed_file_is_imported_anew_when_corrected(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "1 / 0\n")
    refused(path)
    os.utime(write(path, "value = 1  # corrected\n"), (1, 1))
    assert import_file(path, "task").value == 1


def test_a_module_is_found_in_the_base_folder(tmp_path: Path) -> None:
    write(tmp_path / "package_of_this_test" / "train.py", "value = 3")
    assert import_module("package_of_this_test.train", tmp_path, "task").value == 3


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.train", "json.no_such_module"])
def test_a_missing_module(tmp_path: Path, name: str) -> None:
    missing = "json.no_such_module" if name.startswith("json") else "no_such_package"
    with pytest.raises(TaskError) as caught:
        import_module(name, tmp_path, "task")
    assert str(caught.value) == (
        f"task: there is no module {missing} in {tmp_path} or among the installed packages; "
        "a file is named by its path, path/to/file.py:attr"
    )


def test_an_error_in_a_module_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "module_of_this_test.py", "import no_such_package_anywhere\n")
    with pytest.raises(TaskError) as caught:
        import_module("module_of_this_test", path.parent, "task")
    assert str(caught.value) == (
        f"task: importing it failed at {path}, line 1 (import no_such_package_anywhere): "
        "ModuleNotFoundError: No module named 'no_such_package_anywhere'"
    )


def test_where_modules_come_from() -> None:
    assert file_of(sys.modules[__name__]) == Path(__file__).resolve()
    assert file_of(sys) is None


def test_installed_packages_in_the_persons_folder_are_not_theirs(tmp_path: Path) -> None:
    write(tmp_path / "env" / "site-packages" / "installed_here.py", "def fail():\n    raise ValueError('inside')\n")
    path = write(tmp_path / "train.py", "import installed_here\n\n\ndef build():\n    installed_here.fail()\n")
    sys.path.insert(0, str(tmp_path / "env" / "site-packages"))
    with pytest.raises(ValueError, match="inside") as caught:
        import_file(path, "task").build()
    assert str(failure("building failed", caught.value, path.parent)) == (
        f"building failed at {path}, line 5 (installed_here.fail()): ValueError: inside"
    )


def test_a_file_that_python_cannot_read_is_told_without_a_place(tmp_path: Path) -> None:
    path = write(tmp_path / "train.py", "x = '\0'\n")
    assert refused(path) == "task: importing it failed: SyntaxError: source code string cannot contain null bytes"
