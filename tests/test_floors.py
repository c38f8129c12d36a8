"""Imports only point down: a module may use the floors under its own and its own package, nothing else."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "headtune"

FLOORS: list[set[str]] = [
    {"errors", "rules", "_logging", "_lazy"},
    {"heads", "pareto"},
    {"nn"},
    {"surgery"},
    {"timing", "diagnose"},
    {"trial"},
    {"search", "execute"},
    {"study"},
    {"advise", "report"},
    {"config"},
    {"cli"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}

LOWEST = {"numpy": 1, "torch": 2}
"""Third-party packages that every floor from this one up may use."""

HOMES = {
    "safetensors": {"surgery"},
    "onnxruntime": {"surgery"},
    "sklearn": {"timing", "diagnose"},
    "psutil": {"timing"},
    "pynvml": {"timing"},
    "optuna": {"search"},
    "optuna_dashboard": {"search"},
    "threadpoolctl": {"search"},
    "scipy": {"search", "study", "timing"},
    "ray": {"execute"},
    "pandas": {"report"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "yaml": {"config"},
    "typer": {"cli"},
    "rich": {"cli"},
}
"""Third-party packages with a home of their own."""

LOOKED_UP = {"transformers", "timm"}
"""Packages whose classes are found in ``sys.modules``, and which nobody imports."""

ROOT_FILES = {"__init__", "__main__"}
MODULES = sorted(
    path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0].removesuffix(".py") not in ROOT_FILES
)
NAMES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES
}
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, *, running: bool = False) -> Iterator[tuple[str, str | None]]:
    """Every import in the file, also inside functions, as (module, name in it).

    Args:
        running: only those that run when the module is imported: not in functions, not for type checkers.
    """
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}, line {node.lineno}: write an absolute import"
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif running and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif running and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)


def public_names(init: Path) -> set[str]:
    """The names in ``__all__`` of a package."""
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_every_package_has_a_floor() -> None:
    assert {package_of(path) for path in MODULES} <= FLOOR.keys()


@each_module
def test_imports_point_down(path: Path) -> None:
    mine = package_of(path)
    for module, name in imports(path):
        top, *rest = module.split(".")
        if top != "headtune":
            continue
        if not rest:
            assert (mine, name) == ("cli", None), f"{module}: import a module, not the root, which imports you"
            continue
        theirs = rest[0]
        assert theirs == mine or FLOOR[theirs] < FLOOR[mine], f"{mine} (floor {FLOOR[mine]}) may not import {module}"


@each_module
def test_third_party_packages_stay_at_home(path: Path) -> None:
    mine = package_of(path)
    for module, _ in imports(path):
        top = module.partition(".")[0]
        assert top not in LOOKED_UP, f"{top} is looked up in sys.modules, never imported"
        assert mine in HOMES.get(top, {mine}), f"only {' and '.join(sorted(HOMES[top]))} may import {top}"
        assert FLOOR[mine] >= LOWEST.get(top, 0), f"{mine} is below the floor from which {top} may be used"


@each_module
def test_every_other_import_is_the_standard_librarys(path: Path) -> None:
    import sys

    for module, _ in imports(path):
        top = module.partition(".")[0]
        known = {"headtune", *HOMES, *LOWEST, *LOOKED_UP} | set(sys.stdlib_module_names)
        assert top in known, f"{top} is in no table: say which package is its home"


def test_no_module_needs_itself_to_be_imported() -> None:
    graph: dict[str, set[str]] = {}
    for name, path in NAMES.items():
        needed = set()
        for module, attribute in imports(path, running=True):
            inner = f"{module}.{attribute}"
            needed.add(inner if inner in NAMES else module)
        graph[name] = needed & NAMES.keys() - {name}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("init", sorted(ROOT.rglob("__init__.py")), ids=lambda init: str(init.parent.relative_to(ROOT)))
def test_no_module_hides_a_name_of_its_package(init: Path) -> None:
    inside = {path.stem for path in init.parent.glob("*.py")} | {
        path.name for path in init.parent.iterdir() if path.is_dir()
    }
    assert inside.isdisjoint(public_names(init))


def test_no_drawer_for_everything() -> None:
    assert {path.stem for path in MODULES}.isdisjoint({"utils", "util", "common", "helpers", "misc"})


def test_the_reader_of_imports_sees_every_kind(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        "import a.b, c\nfrom d import e\nif TYPE_CHECKING:\n    import f\n"
        "def g():\n    import h\nclass I:\n    import j\n"
    )
    assert set(imports(source)) == {("a.b", None), ("c", None), ("d", "e"), ("f", None), ("h", None), ("j", None)}
    assert set(imports(source, running=True)) == {("a.b", None), ("c", None), ("d", "e"), ("j", None)}
    source.write_text("from . import a\n")
    with pytest.raises(AssertionError, match="write an absolute import"):
        list(imports(source))
