"""What follows from a profile, in plain words."""

from collections.abc import Iterator

from headtune.study.against import beside_present
from headtune.study.details import ProfileDetails
from headtune.study.kernel_findings import alignment_findings, few, kernel_findings
from headtune.study.long_findings import long_findings
from headtune.study.profiling import Profile
from headtune.timing import LatencyProtocol
from headtune.timing.traits import LaunchTest
from headtune.trial.profiling import PassTraits


def profile_findings(found: Profile) -> tuple[str, ...]:
    """Sentences on what the measured model's latency depends on, and what would change it; none without details.

    Each is true of what was measured, and of no more.
    """
    if found.details is None or found.latency is None:
        return ()
    details = found.details
    timed = found.latency.profiles["present"].protocol
    what = "the pass" if timed.mode == "forward" else "a forward pass"  # traits are of one, whatever was timed
    return (
        _share(details.traits, what),
        _launch(details.traits.launch, what, timed),
        *_heads(details),
        *_plans(found),
        *kernel_findings(details.kernels),
        *alignment_findings(found.latency.plans, details.unaligned, timed.device),
        *long_findings(details.long),
    )


def _share(traits: PassTraits, what: str) -> str:
    share = traits.share
    low, high = (max(end, 0.0) for end in share.interval)
    told = f"attention is {share.value:.0%} of {what} [{low:.0%}, {high:.0%}]"
    if share.ordinary:
        told += " on PyTorch's ordinary path, since its fused encoder layers cannot be taken apart"
    if traits.blocks:
        return f"{told}, with all else that {few(traits.blocks)} hold: fewer heads save less than that"
    return f"{told}: even no attention at all would save no more"


def _launch(test: LaunchTest | None, what: str, timed: LatencyProtocol) -> str:
    if test is None:
        return f"whether {what} is launch-bound is unknown: inputs returns the same sizes whatever the batch size"
    low, high = test.fixed_interval
    time = "the time" if what == "the pass" else f"the time of {what}"
    fixed = f"{test.fixed:.0%} of {time} [{low:.0%}, {high:.0%}] does not change with the batch"
    match test.bound:
        case "launch":
            compiling = "" if timed.compile else " compile,"
            return (
                f"launch-bound: {fixed}; fewer heads will not save time at a batch of {test.batch_sizes[0]}: "
                f"raise the batch,{compiling} or use fewer layers"
            )
        case "weights":
            return (
                f"bound by reading the weights: {fixed}, and reading them takes {test.weights or 0:.0%}; heads save "
                "time here as far as they save weights, and a larger batch shares the reading"
            )
        case "work":
            return f"not launch-bound: {fixed}, the rest grows with the work"
        case "unclear":
            return f"whether {what} is launch-bound is within the noise: {fixed}; raise latency.max_seconds to tell"


def _heads(details: ProfileDetails) -> Iterator[str]:
    if not details.costs:
        return
    measurable = [cost for cost in details.costs if cost.measurable]
    dearest = max(measurable or details.costs, key=lambda cost: cost.ratio.value)
    low, high = dearest.ratio.interval
    adds = f"{dearest.ratio.value:.2%} [{low:.2%}, {high:.2%}]"
    if measurable:
        ends = f"on average between {dearest.counts[0]} and {dearest.counts[1]} heads"
        yield f"heads move latency: one more at the dearest site, {dearest.name}, adds {adds}, {ends}"
    else:
        yield f"heads do not move latency measurably here: one more at the dearest site, {dearest.name}, adds {adds}"


def _plans(found: Profile) -> Iterator[str]:
    assert found.latency is not None
    compared = {name: beside_present(one) for name, one in found.latency.profiles.items() if name != "present"}
    differ = {name: one for name, one in compared.items() if one.significant}
    if not differ:
        yield f"none of {few(tuple(compared))} differs significantly from the present plan"
        return
    name, fastest = min(differ.items(), key=lambda item: item[1].ratio)
    if fastest.ratio > 1:
        yield f"none of {few(tuple(compared))} is significantly faster than the present plan"
    else:
        low, high = fastest.interval
        yield f"the fastest of these plans, {name}, saves {1 - fastest.ratio:.0%} [{1 - high:.0%}, {1 - low:.0%}]"
