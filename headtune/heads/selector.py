"""Which sites a text names: a path, a glob over whole paths, or ``role=<role>``."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import get_args

from headtune.heads.site import AttentionSite, Role

_ROLE = "role="


def select(selector: str, sites: Sequence[AttentionSite]) -> tuple[AttentionSite, ...]:
    """The sites that *selector* names, in order.

    A selector that is the path of a site names that site alone. Else ``role=cross`` selects by role, and anything else
    is a glob over the whole path, in which ``*`` crosses dots (``?`` and ``[...]`` work as in a shell).
    """
    exact = tuple(site for site in sites if site.path == selector)
    if exact:
        return exact
    if selector.startswith(_ROLE):
        return tuple(site for site in sites if site.role == selector.removeprefix(_ROLE))
    return tuple(site for site in sites if fnmatchcase(site.path, selector))


def unmatched(selector: str, sites: Sequence[AttentionSite]) -> str:
    """The problem of a selector that names no site, with what it could have named."""
    if not sites:
        return f"'{selector}' matches no site: the model has none"
    if not selector.startswith(_ROLE):
        return f"'{selector}' matches no site; sites: {', '.join(site.path for site in sites)}"
    if selector.removeprefix(_ROLE) not in get_args(Role):
        return f"'{selector}' names no role; roles: {', '.join(get_args(Role))}"
    return f"'{selector}' matches no site; sites: {', '.join(f'{site.path} ({site.role})' for site in sites)}"
