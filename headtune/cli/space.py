"""``headtune space``."""

from typing import TYPE_CHECKING

from rich.console import RenderableType

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import show, show_json, table
from headtune.cli.wording import count, value

if TYPE_CHECKING:
    from headtune.study import Checked, StudySpec
    from headtune.trial import Param


def space(study: StudyPath, overrides: Overrides = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show what would be searched: how many plans, the choices at each site, the baselines, the constraints.

    Example: headtune space study.yaml --set space.tie=uniform
    """
    with guard(verbose):
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        from headtune.cli.observers import watching
        from headtune.study import check

        with watching() as observer:
            checked = check(spec, observer)
        if as_json:
            show_json(_document(spec, checked))
        else:
            show(*_page(spec, checked))


def _page(spec: "StudySpec", checked: "Checked") -> list[RenderableType]:
    found = checked.space
    dimensions = table("decision", "choices, heads[/kv_heads][xhead_dim]", "count", numbers=1)
    for dimension in found.dimensions:
        choices = " ".join(map(str, dimension.choices))
        dimensions.add_row(dimension.name, choices, str(len(dimension.choices)))
    baselines = table("baseline", "counts", "in the space")
    for name, plan in checked.baselines:
        names = ", ".join(checked.baselines.names(plan))
        baselines.add_row(names or name, plan.label, "yes" if plan in found else "no: trained and shown only")
    return [
        f"{count(found.size, 'plan')} under hold: {spec.space.hold}, weights: {spec.weights}",
        "",
        dimensions,
        "",
        baselines,
        "",
        *(f"param {name}: {_choices(param)}" for name, param in spec.params.items()),
        f"constraints: {'; '.join(constraint_sentences(spec)) or 'none'}",
    ]


def _choices(param: "Param") -> str:
    """What a param may be, in words."""
    from headtune.trial import ChoiceParam

    if isinstance(param, ChoiceParam):
        values = ", ".join(map(str, param.choices))
    else:
        values = f"{param.low} to {param.high}" + (", on a log scale" if param.log else "")
    return f"{values}; default {value(param.baseline) if isinstance(param.baseline, float) else param.baseline}"


def _document(spec: "StudySpec", checked: "Checked") -> dict[str, object]:
    found = checked.space
    return {
        "hold": spec.space.hold,
        "weights": spec.weights,
        "plans": found.size,
        "dimensions": {dimension.name: list(map(str, dimension.choices)) for dimension in found.dimensions},
        "baselines": {
            name: {
                "plan": plan.to_json(),
                "aliases": list(checked.baselines.names(plan)[1:]),
                "in_space": plan in found,
            }
            for name, plan in checked.baselines
        },
        "params": sorted(spec.params),
        "constraints": constraint_sentences(spec),
    }


def constraint_sentences(spec: "StudySpec") -> list[str]:
    """Every constraint of a study in words."""
    return [str(one) for one in (spec.space.head_dim, *spec.limits) if one is not None]
