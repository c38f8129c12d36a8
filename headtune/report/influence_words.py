"""What mattered for an objective, as a sentence."""

from headtune.report.wording import count, listing, metric_name
from headtune.search import Influence

_NAMED = 3


def influence_sentence(one: Influence) -> str:
    """What mattered for one objective, such as ``By loss, the best trials differ from the others in lr (62 %).``"""
    metric = metric_name(one.metric)
    if one.why:
        return f"What {metric} depends on cannot be told: {one.why}."
    if not one.clear:
        return f"No choice stands out from chance for {metric}, in {count(one.trials, 'trial')}."
    first, *others = [f"{name} ({round(100 * one.shares[name])} %)" for name in one.clear[:_NAMED]]
    if len(one.clear) > _NAMED:
        others.append(f"{len(one.clear) - _NAMED} more")
    choices = f"{first}, then {listing(others)}" if others else first
    return f"By {metric}, the best trials differ from the others in {choices}."
