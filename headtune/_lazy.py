"""Names that are imported when they are first used (PEP 562), so that the root stays light."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module ``__getattr__`` that imports each name from its home when it is first asked for.

    Args:
        package: the package that shows the names.
        homes: name → ``module`` or, where it is called otherwise there, ``module:name``.

    Returns:
        A function that returns the value of a name.

    Raises:
        AttributeError: from the returned function, for any other name.
    """

    def get(name: str) -> Any:  # noqa: ANN401
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = homes[name].partition(":")
        return getattr(import_module(module), there or name)

    return get
