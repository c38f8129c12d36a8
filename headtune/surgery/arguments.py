"""What the functions of surgery may be given, besides a model and its inputs."""

from collections.abc import Mapping
from typing import get_args

import headtune.rules as rules
from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.heads.site import Hold

PLAN = rules.a(
    HeadPlan, "a HeadPlan: make it by HeadPlan.parse(text, sites, hold=…) or HeadPlan.of({path: HeadCount(…)})"
)
HOLD = rules.one_of(get_args(Hold))


def check_arguments(given: Mapping[str, tuple[object, rules.Rule]]) -> None:
    """Make sure that every named value keeps its rule.

    Raises:
        SurgeryError: for each one that does not: its name, what it must be, and what came.
    """
    problems = rules.broken(given)
    if problems:
        raise SurgeryError(*problems)
