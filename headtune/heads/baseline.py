"""The plans that every search is compared with."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headtune.heads.heuristic import mixed_rule, rule_of_thumb
from headtune.heads.options import SpaceOptions
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.heads.space import SearchSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Named plans in their fixed order: ``present``, ``rule``, ``rule-mixed``, ``smallest``, ``largest``.

    Attributes:
        plans: each different plan under the first of its names.
        aliases: the other names, each with the first name of the same plan.
    """

    plans: Mapping[str, HeadPlan]
    aliases: Mapping[str, str]

    def __getitem__(self, name: str) -> HeadPlan:
        return self.plans[self.aliases.get(name, name)]

    def get(self, name: str) -> HeadPlan | None:
        """The plan of that name; ``None`` where there is no such name."""
        return self.plans.get(self.aliases.get(name, name))

    def __iter__(self) -> Iterator[tuple[str, HeadPlan]]:
        """Each different plan with the first of its names."""
        return iter(self.plans.items())

    def __len__(self) -> int:
        return len(self.plans)

    def names(self, plan: HeadPlan) -> tuple[str, ...]:
        """Every name of *plan*, the first one first; empty for a plan that is no baseline."""
        first = [name for name, known in self.plans.items() if known == plan]
        return (*first, *(alias for alias, name in self.aliases.items() if name in first))


def baselines(sites: Sequence[AttentionSite], options: SpaceOptions, *, trained: bool = False) -> Baselines:
    """The present counts, the rule of thumb, its mixed form, and the space's smallest and largest plan.

    The first three may lie outside of the space.

    Args:
        sites: the model's.
        options: of the space.
        trained: whether the heads are trained and kept, as :meth:`SearchSpace.of` takes it.

    Raises:
        SpaceError: the options leave no space.
    """
    space = SearchSpace.of(sites, options, trained=trained)
    named = {
        "present": HeadPlan.present(sites),
        "rule": rule_of_thumb(sites, options.hold),
        "rule-mixed": mixed_rule(sites, options.hold),
        "smallest": space.smallest,
        "largest": space.largest,
    }
    first: dict[HeadPlan, str] = {}
    for name, plan in named.items():
        first.setdefault(plan, name)
    return Baselines(
        plans={name: plan for plan, name in first.items()},
        aliases={name: first[plan] for name, plan in named.items() if first[plan] != name},
    )
