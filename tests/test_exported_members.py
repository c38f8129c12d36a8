import inspect
import subprocess
import sys

import pytest

import headtune

HEAVY = ("torch", "ray", "optuna", "numpy", "pandas", "matplotlib", "pydantic", "typer")


def test_the_public_names_are_sorted() -> None:
    assert headtune.__all__ == sorted(headtune.__all__)
    assert len(set(headtune.__all__)) == len(headtune.__all__)
    assert dir(headtune) == headtune.__all__


@pytest.mark.parametrize("name", headtune.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(headtune, name)
    assert inspect.isclass(value) or inspect.isfunction(value)
    doc = value.__doc__ or ""
    assert doc.strip(), f"{name} has no docstring"
    assert not doc.startswith(f"{name}("), f"{name} has only the docstring that dataclasses write"


@pytest.mark.parametrize("name", headtune.__all__)
def test_no_module_hides_a_public_name(name: str) -> None:
    assert not inspect.ismodule(getattr(headtune, name))


def test_what_type_checkers_see_is_what_is_there() -> None:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(headtune.__file__).read_text(encoding="utf-8"))
    (twin,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in twin.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == headtune.__all__
    for name, (module, there) in seen.items():
        assert getattr(headtune, name) is getattr(__import__(str(module), fromlist=[there]), there)


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'headtune' has no attribute 'prnue'"):
        getattr(headtune, "prnue")  # noqa: B009 - the name is the point


def test_importing_headtune_loads_nothing_heavy() -> None:
    code = f"import sys, headtune; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_values_and_rules_need_no_torch() -> None:
    code = (
        "import sys, headtune\n"
        "headtune.suggest(384, 6), headtune.SpaceOptions(hold='width'), headtune.Objective, headtune.HeadPlan\n"
        "print(sorted({'torch', 'ray', 'optuna'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
