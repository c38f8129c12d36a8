"""Measuring what a profile tells beside the latency of its named plans."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headtune.heads import HeadPlan, SearchSpace
from headtune.pareto.objective import LATENCY
from headtune.study.details import ProfileDetails
from headtune.study.head_costs import head_costs
from headtune.study.spec import StudySpec
from headtune.timing import LatencyProfile, LongVariant
from headtune.timing.prediction import LatencyModel, TimedPlan, informative_plans
from headtune.timing.prediction.latency_model import FEWEST as LEAST_FITTED
from headtune.timing.traits import unaligned, wanted_multiples
from headtune.trial.contract import Executor
from headtune.trial.measuring import Candidate
from headtune.trial.params import baseline_values
from headtune.trial.profiling import examine, kernels_of, long_variants_of, profile_briefly
from headtune.trial.setup import TrialSetup

CHUNK = 4
"""Plans that are measured between two words of progress; for each chunk the present model is built once."""

FEWEST, MOST = 8, 40
"""Plans that are measured to tell the costs of the sites apart."""

PATIENCE = 10
"""So many times the protocol's seconds for one plan are spent on them, and more only where they are too few to fit."""


LONG = 512
"""Sequences of more positions are long."""

MANY_HEADS = ("present", "largest")
"""The plans for which long sequences are tried otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Who measures what.

    Attributes:
        spec: the study.
        space: its legal plans.
        setup: of its workers.
        executor: who runs them.
        say: is told what is measured next.
    """

    spec: StudySpec
    space: SearchSpace
    setup: TrialSetup
    executor: Executor
    say: Callable[[str], None]

    @classmethod
    def at_longest(
        cls, spec: StudySpec, space: SearchSpace, setup: TrialSetup, executor: Executor, say: Callable[[str], None]
    ) -> "Measuring":
        """At the longest of the sequence lengths, where attention weighs most."""
        longest = setup.latency.lengths[-1]
        narrowed = replace(setup, latency=setup.latency.at(longest), timed={LATENCY: longest})
        return cls(spec=spec, space=space, setup=narrowed, executor=executor, say=say)

    def candidates(self, plans: Sequence[HeadPlan]) -> list[Candidate]:
        """The plans with the params of the present one."""
        return [Candidate(plan=plan, params=baseline_values(self.spec.params)) for plan in plans]


def design_size(space: SearchSpace) -> int:
    """How many plans tell the costs of the sites apart: two for each decision of the space, within bounds."""
    return min(max(2 * len(space.dimensions), FEWEST), MOST)


def detail(work: Measuring, plans: Mapping[str, HeadPlan], known: Mapping[HeadPlan, LatencyProfile]) -> ProfileDetails:
    """Examine the present model's pass, and fit what a head costs at each site.

    Args:
        work: who measures what.
        plans: the named plans.
        known: the latencies of those.
    """
    work.say("taking the pass of the present plan apart")
    traits = work.executor.call(examine, work.setup)
    distinct = list(dict.fromkeys(plans.values()))
    kernels = dict(zip(distinct, work.executor.call(kernels_of, work.setup, work.candidates(distinct)), strict=True))
    multiples = wanted_multiples(work.setup.latency)
    timed = timed_plans(work, known)
    model = fitted(work, timed)
    return ProfileDetails(
        traits=traits,
        kernels={name: kernels[plan] for name, plan in plans.items()},
        multiples=multiples,
        unaligned={name: unaligned(plan, multiples) for name, plan in plans.items()},
        costs=() if model is None else head_costs(model, work.space, work.setup.latency.lengths[-1]),
        fitted=len(timed),
        error=None if model is None else model.error,
        long=_long(work, plans),
    )


def _long(work: Measuring, plans: Mapping[str, HeadPlan]) -> dict[str, tuple[LongVariant, ...]]:
    """What would spare long sequences, for the plans with many heads."""
    length = work.setup.latency.lengths[-1]
    if length is None or length <= LONG:
        return {}
    work.say("timing attention within a window, and activations computed again")
    many = {name: plans[name] for name in MANY_HEADS if name in plans}
    distinct = list(dict.fromkeys(many.values()))
    found = dict(
        zip(distinct, work.executor.call(long_variants_of, work.setup, work.candidates(distinct)), strict=True)
    )
    return {name: found[plan] for name, plan in many.items()}


def timed_plans(work: Measuring, known: Mapping[HeadPlan, LatencyProfile]) -> dict[HeadPlan, LatencyProfile]:
    """The latencies of an informative design, those that are *known* included."""
    return {**_timed_briefly(work, known), **known}


def _timed_briefly(work: Measuring, known: Mapping[HeadPlan, LatencyProfile]) -> dict[HeadPlan, LatencyProfile]:
    """The latencies of an informative design, as far as they are not known."""
    design = informative_plans(work.space, design_size(work.space), work.spec.seed)
    wanted = [plan for plan in design if plan not in known]
    found: dict[HeadPlan, LatencyProfile] = {}
    began = time.monotonic()
    for start in range(0, len(wanted), CHUNK):
        enough = len(found) + len(known) > len(work.space.dimensions)
        if enough and time.monotonic() - began > PATIENCE * work.setup.latency.max_seconds:
            break
        work.say(f"timing what a head costs at each site, {start} of {len(wanted)} plans done")
        chunk = wanted[start : start + CHUNK]
        seen = work.executor.call(profile_briefly, work.setup, work.candidates(chunk))
        found |= {plan: one.latency for plan, one in zip(chunk, seen, strict=True) if one.latency is not None}
    return found


def fitted(work: Measuring, timed: Mapping[HeadPlan, LatencyProfile]) -> LatencyModel | None:
    """The model of the measured plans; ``None`` where the space has too few to say anything of its own error."""
    if len(timed) < LEAST_FITTED:
        return None
    return LatencyModel.fit(work.setup.sites, work.setup.hold, [_timed(plan, one) for plan, one in timed.items()])


def _timed(plan: HeadPlan, latency: LatencyProfile) -> TimedPlan:
    return TimedPlan(
        plan=plan, ratio=latency.ratio, ratio_interval=latency.ratio_interval, seq_len=latency.protocol.length
    )
