import inspect
import pickle

import pytest

from headtune import errors
from headtune.errors import HeadtuneError, Infeasible, InputError, PlanError, StopTrial, TrialError

ROOTS_OF = {"HeadtuneError": "Exception", "StopTrial": "BaseException"}
ROOTS = tuple(ROOTS_OF)


def drawn_tree() -> dict[str, str]:
    """Each class in the module's drawing with the class that it hangs from."""
    parents: list[str] = []
    tree = {}
    for line in (errors.__doc__ or "").splitlines():
        drawing, _, rest = line.rpartition("─ ")
        name = rest.split()[0] if rest else ""
        if line.startswith(ROOTS):
            name = line.split()[0]
            parents = [name]
            tree[name] = ROOTS_OF[name]
        elif drawing:
            depth = line.index(name) // 4
            parents[depth:] = [name]
            tree[name] = parents[depth - 1]
    return tree


def test_the_drawing_is_the_tree() -> None:
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    real = {name: kind.__base__.__name__ for name, kind in classes.items() if kind.__module__ == errors.__name__}
    assert drawn_tree() == real


@pytest.mark.parametrize(
    ("kind", "exit_code"), [(HeadtuneError, 1), (InputError, 2), (PlanError, 2), (Infeasible, 3), (TrialError, 1)]
)
def test_every_error_knows_its_exit_code(kind: type[HeadtuneError], exit_code: int) -> None:
    assert kind("it failed").exit_code == exit_code


def test_one_problem_is_the_message() -> None:
    assert str(PlanError("a: 7 heads do not divide the width 64")) == "a: 7 heads do not divide the width 64"


def test_several_problems_are_a_list() -> None:
    error = PlanError("a: one", "b: two")
    assert error.problems == ("a: one", "b: two")
    assert str(error) == "2 problems:\n  - a: one\n  - b: two"


def test_an_error_crosses_processes_with_its_problems() -> None:
    error = pickle.loads(pickle.dumps(PlanError("a: one", "b: two")))
    assert type(error) is PlanError
    assert error.problems == ("a: one", "b: two")


def test_stop_trial_passes_a_handler_of_exceptions() -> None:
    assert issubclass(StopTrial, BaseException)
    assert not issubclass(StopTrial, Exception)
