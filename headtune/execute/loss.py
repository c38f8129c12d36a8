"""Why a worker was lost, in plain words."""

from ray.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    RaySystemError,
    RayTaskError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from headtune.errors import in_words, printable

_WORDLESS = "its process died without a word: killed, out of memory, or ended by os._exit"


def why_lost(error: BaseException | None) -> str:
    """The reason behind what Ray raises for a worker or its task; ``None`` where Ray knows nothing."""
    match error:
        case OutOfMemoryError():
            return "its process was ended because the machine ran out of memory"
        case NodeDiedError():
            return "its machine left the cluster"
        case RuntimeEnvSetupError():
            return f"its worker could not start: {_last_line(error)}"
        case RayActorError() if error.actor_init_failed:
            return f"its worker could not start: {_last_line(error)}"
        case None | WorkerCrashedError() | RayActorError():
            return _WORDLESS
        case RayTaskError() if not isinstance(error.cause, RaySystemError):
            return f"its worker failed: {in_words(error.cause)}"
        case _:
            return f"its worker failed: {_last_line(error)}"


def _last_line(error: BaseException) -> str:
    """Where a traceback that came as text says what was raised."""
    lines = str(error).strip().splitlines()
    return printable(lines[-1]) if lines else type(error).__name__
