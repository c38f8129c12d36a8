"""How far a trained model is to be pruned, and in which steps; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import SpecError

Order = Literal["importance", "once", "random"]
"""Which heads go: the least important of those that are left, scored anew at each step; by one scoring; or any."""

Match = Literal["auto", "logits", "states"]
"""What a model answers, for a student to learn: logits of classes, or hidden states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneGoal:
    """One of three targets.

    Attributes:
        heads: at most so many are to be left.
        latency_ratio: the latency is to be at most this share of the whole model's, by the upper end of its interval.
        quality_loss: the quality may be worse by at most this, in the metric's unit; as many heads go as can.

    Raises:
        SpecError: none of them is given, or several, or one has no meaning.
    """

    heads: int | None = None
    latency_ratio: float | None = None
    quality_loss: float | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in rules.PRUNE_GOALS}
        problems = rules.broken(
            {f"prune.{name}": (given[name], rules.optional(rule)) for name, rule in rules.PRUNE_GOALS.items()}
        )
        named = [name for name, value in given.items() if value is not None]
        problems += rules.sentences([((f"prune.{name}",), told) for (name,), told in rules.one_goal(named)])
        if not named:
            problems.append(f"prune: has no goal; give {', '.join(rules.PRUNE_GOALS)}: one of them")
        if problems:
            raise SpecError(*problems)

    @property
    def words(self) -> str:
        """The goal in a few words."""
        if self.heads is not None:
            return "to 1 head" if self.heads == 1 else f"to {self.heads} heads"
        if self.latency_ratio is not None:
            return f"to {self.latency_ratio:g} × the latency"
        return f"as far as no more than {self.quality_loss:g} of the quality is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """How a trained model loses its heads.

    Attributes:
        share: of the whole model's heads, to go at each step; at least one goes.
        order: which.
        steps: of training after each pruning, a batch each; 0 trains nothing.
        lr: peak learning rate of that training.
        alpha: share of the whole model's answers in its loss, 0 to 1; the rest is the task's own.
        temperature: at which logits are compared.
        match: what the answers are; ``auto`` takes ``.logits`` and ``.last_hidden_state`` for what they say, and a
            plain tensor for logits.
        seed: of the order at random, and of the training.

    Raises:
        SpecError: lists every value that has no meaning.
    """

    share: float = 0.1
    order: Order = "importance"
    steps: int = 0
    lr: float = 3e-4
    alpha: float = 0.5
    temperature: float = 2.0
    match: Match = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        problems = rules.broken(
            {
                "prune.share": (self.share, rules.share),
                "prune.order": (self.order, rules.one_of(get_args(Order))),
                "prune.steps": (self.steps, rules.at_least(0)),
                "prune.lr": (self.lr, rules.positive),
                "prune.alpha": (self.alpha, rules.fraction),
                "prune.temperature": (self.temperature, rules.positive),
                "prune.match": (self.match, rules.one_of(get_args(Match))),
                "prune.seed": (self.seed, rules.seed),
            }
        )
        if problems:
            raise SpecError(*problems)
