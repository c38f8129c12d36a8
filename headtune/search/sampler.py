"""Which sampler proposes, and why."""

from dataclasses import dataclass
from math import log10, sqrt
from typing import Literal

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

SamplerName = Literal["auto", "ehvi", "tpe", "gp", "nsga2", "random", "grid"]

STARTUP = 10
"""Trials that a model-based sampler draws at random before it trusts its model."""

_GP_TRIALS = 200
_LEGIBLE = 10**9


@dataclass(frozen=True, slots=True)
class Choice:
    """A sampler by name, and why it was taken."""

    name: Literal["ehvi", "tpe", "gp", "nsga2", "random", "grid"]
    why: str

    def __str__(self) -> str:
        return f"sampler {self.name}: {self.why}"


def choose_sampler(asked: SamplerName, *, unseen: int | None, left: int, trials: int, plain: bool) -> Choice:
    """The sampler for the next trial.

    ``auto`` lists everything where no more combinations are unseen than trials are left; else, while trials are few
    enough for the cost of Gaussian processes, it takes headtune's own search by expected hypervolume improvement, or
    Optuna's Gaussian process where the objectives are not plain; else the multivariate TPE.

    Args:
        unseen: combinations of plan and params that were not tried yet; ``None`` where a param is continuous.
        left: trials that are still to be trained.
        trials: trials of the whole study.
        plain: whether there is one quality objective and at most one measured one.
    """
    if asked != "auto":
        return Choice(asked, "as asked")
    if unseen is not None and unseen <= left:
        return Choice("grid", f"{unseen} combinations are untried and {left} trials left, so every one is tried")
    many = (
        "a param is continuous"
        if unseen is None
        else f"{_written(unseen)} combinations are untried and {left} trials left"
    )
    if trials <= _GP_TRIALS and plain:
        return Choice("ehvi", f"{many}; each goes where the front is expected to grow most")
    if trials <= _GP_TRIALS:
        return Choice("gp", f"{many}; a Gaussian process learns most from so few")
    return Choice("tpe", f"{many}; beyond {_GP_TRIALS} trials a Gaussian process is too slow")


def _written(count: int) -> str:
    return f"{count:,}" if count < _LEGIBLE else f"about 10^{int(log10(count))}"


class _OneSpaceTPE(TPESampler):
    """TPE for trials of one space: its dimensions are read off the first trial, not compared in every one."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The dimensions that have a choice."""
        first = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))[:1]
        every = first[0].distributions if first else {}
        return {name: every[name] for name in sorted(every) if not every[name].single()}


def build_sampler(choice: Choice, *, seed: int, trials: int) -> BaseSampler:
    """The Optuna sampler behind a choice; ``ehvi`` and ``grid`` have none."""
    match choice.name:
        case "gp":
            return GPSampler(seed=seed, n_startup_trials=STARTUP, warn_independent_sampling=False)
        case "tpe":
            return _OneSpaceTPE(seed=seed, n_startup_trials=STARTUP, multivariate=True, constant_liar=True)
        case "nsga2":
            return NSGAIISampler(seed=seed, population_size=population_size(trials))
        case "random" | "grid" | "ehvi":
            return RandomSampler(seed=seed)


def population_size(trials: int) -> int:
    """NSGA-II's population for a study of so many trials: their root, so that there are as many generations."""
    return max(8, round(sqrt(trials)))
