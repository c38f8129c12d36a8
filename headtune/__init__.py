"""How many attention heads should each layer of your Transformer have?

Every public name is imported when it is first used: ``import headtune`` loads neither torch nor ray nor optuna.
"""

from typing import TYPE_CHECKING

from headtune._lazy import lazy

if TYPE_CHECKING:
    from headtune.diagnose import Redundancy, importance, redundancy
    from headtune.errors import HeadtuneError, Infeasible, StopTrial
    from headtune.heads import (
        AttentionSite,
        HeadCount,
        HeadDimConstraint,
        HeadMask,
        HeadPlan,
        HeadRange,
        Limit,
        SearchSpace,
        SiteOptions,
        SpaceOptions,
        Stages,
        suggest,
    )
    from headtune.nn import HeadedAttention
    from headtune.pareto import Objective, ParetoFront
    from headtune.report import write_report
    from headtune.study import Resources, Study, StudyRecord, VerifyOptions
    from headtune.surgery import apply, load, merge_kv, prune, save
    from headtune.surgery import find_sites as sites
    from headtune.timing import LatencyProfile, LatencyProtocol, measure
    from headtune.trial import ChoiceParam, FloatParam, IntParam, Run, Supervised, Task, trainer_callback

__all__ = [
    "AttentionSite",
    "ChoiceParam",
    "FloatParam",
    "HeadCount",
    "HeadDimConstraint",
    "HeadMask",
    "HeadPlan",
    "HeadRange",
    "HeadedAttention",
    "HeadtuneError",
    "Infeasible",
    "IntParam",
    "LatencyProfile",
    "LatencyProtocol",
    "Limit",
    "Objective",
    "ParetoFront",
    "Redundancy",
    "Resources",
    "Run",
    "SearchSpace",
    "SiteOptions",
    "SpaceOptions",
    "Stages",
    "StopTrial",
    "Study",
    "StudyRecord",
    "Supervised",
    "Task",
    "VerifyOptions",
    "apply",
    "importance",
    "load",
    "measure",
    "merge_kv",
    "prune",
    "redundancy",
    "save",
    "sites",
    "suggest",
    "trainer_callback",
    "write_report",
]

_HOMES = {
    "headtune.diagnose": ("Redundancy", "importance", "redundancy"),
    "headtune.errors": ("HeadtuneError", "Infeasible", "StopTrial"),
    "headtune.heads": (
        *("AttentionSite", "HeadCount", "HeadDimConstraint", "HeadMask", "HeadPlan", "HeadRange", "Limit"),
        *("SearchSpace", "SiteOptions", "SpaceOptions", "Stages", "suggest"),
    ),
    "headtune.nn": ("HeadedAttention",),
    "headtune.pareto": ("Objective", "ParetoFront"),
    "headtune.report": ("write_report",),
    "headtune.study": ("Resources", "Study", "StudyRecord", "VerifyOptions"),
    "headtune.surgery": ("apply", "load", "merge_kv", "prune", "save"),
    "headtune.timing": ("LatencyProfile", "LatencyProtocol", "measure"),
    "headtune.trial": ("ChoiceParam", "FloatParam", "IntParam", "Run", "Supervised", "Task", "trainer_callback"),
}

__getattr__ = lazy(
    __name__,
    {"sites": "headtune.surgery:find_sites"} | {name: home for home, names in _HOMES.items() for name in names},
)


def __dir__() -> list[str]:
    return __all__
