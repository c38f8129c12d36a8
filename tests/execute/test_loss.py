"""What a person reads of a lost worker, for each way in which Ray tells of it."""

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    RaySystemError,
    RayTaskError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from headtune.execute.loss import why_lost

WORDLESS = "its process died without a word: killed, out of memory, or ended by os._exit"
TRACE = "Traceback (most recent call last):\n  File x, line 1\nModuleNotFoundError: No module named 'mine'\n"


def task_error(cause: Exception) -> RayTaskError:
    return RayTaskError("train", TRACE, cause)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, WORDLESS),
        (ActorDiedError(), WORDLESS),
        (ActorUnavailableError("gone", None), WORDLESS),
        (WorkerCrashedError(), WORDLESS),
        (OutOfMemoryError("memory"), "its process was ended because the machine ran out of memory"),
        (NodeDiedError("node"), "its machine left the cluster"),
        (RuntimeEnvSetupError("no pip"), "its worker could not start: no pip"),
        (
            ActorDiedError(task_error(RaySystemError(ModuleNotFoundError("mine"), TRACE))),
            "its worker could not start: ModuleNotFoundError: No module named 'mine'",
        ),
        (
            task_error(RaySystemError(ModuleNotFoundError("mine"), TRACE)),
            "its worker failed: ModuleNotFoundError: No module named 'mine'",
        ),
        (task_error(ValueError("\x1b[31mred\x1b[0m")), "its worker failed: ValueError: red"),
        (RaySystemError(ValueError("x"), TRACE), "its worker failed: ModuleNotFoundError: No module named 'mine'"),
        (RayError(), "its worker failed: RayError"),
    ],
)
def test_the_true_reason_is_told(error: BaseException | None, words: str) -> None:
    assert why_lost(error) == words
