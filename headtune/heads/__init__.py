"""How many heads each attention site has, may have and should have: values and rules, without any model."""

from headtune.heads.baseline import Baselines, baselines
from headtune.heads.choice import HeadChoice
from headtune.heads.constraint import Constraint, HeadDimConstraint, Limit, Reference
from headtune.heads.count import HeadCount
from headtune.heads.heuristic import mixed_rule, rule_heads, rule_of_thumb
from headtune.heads.legal import divisors, head_counts, legal_heads, nearest
from headtune.heads.mask import HeadMask
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.plan import HeadPlan
from headtune.heads.pruned import pruned_count
from headtune.heads.ranking import Criterion, HeadRanking
from headtune.heads.selector import select
from headtune.heads.setting import HeadDims, HeadRange, Heads, KvHeads, Stages, Tie
from headtune.heads.site import AttentionSite, Hold, Role
from headtune.heads.space import SearchSpace
from headtune.heads.suggestion import Padding, Split, Suggestion, suggest
from headtune.heads.tie import Dimension, stack_sites

__all__ = [
    "AttentionSite",
    "Baselines",
    "Constraint",
    "Criterion",
    "Dimension",
    "HeadChoice",
    "HeadCount",
    "HeadDimConstraint",
    "HeadDims",
    "HeadMask",
    "HeadPlan",
    "HeadRange",
    "HeadRanking",
    "Heads",
    "Hold",
    "KvHeads",
    "Limit",
    "Padding",
    "Reference",
    "Role",
    "SearchSpace",
    "SiteOptions",
    "SpaceOptions",
    "Split",
    "Stages",
    "Suggestion",
    "Tie",
    "baselines",
    "divisors",
    "head_counts",
    "legal_heads",
    "mixed_rule",
    "nearest",
    "pruned_count",
    "rule_heads",
    "rule_of_thumb",
    "select",
    "stack_sites",
    "suggest",
]
