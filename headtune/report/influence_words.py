"""What mattered for an objective, as a sentence."""

from headtune.report.wording import count, listing, metric_name
from headtune.search import Influence

_NAMED = 3


def influence_sentence(one: Influence) -> str:
    """What mattered for one objective: ``val_accuracy depends mostly on layers.0 (62 %), then lr (20 %).``"""
    metric = metric_name(one.metric)
    if one.why:
        return f"What {metric} depends on cannot be told: {one.why}."
    if not one.clear:
        return f"No choice stands out from chance for {metric}, in {count(one.trials, 'trial')}."
    first, *others = [f"{name} ({round(100 * one.shares[name])} %)" for name in one.clear[:_NAMED]]
    if len(one.clear) > _NAMED:
        others.append(f"{len(one.clear) - _NAMED} more")
    mostly = "mostly" if one.shares[one.clear[0]] >= 0.5 else "most"
    return f"{metric} depends {mostly} on {first}{', then ' + listing(others) if others else ''}."
