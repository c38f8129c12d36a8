"""Trying every operation on one case."""

from collections.abc import Callable
from pathlib import Path

from torch import nn

import headtune.rules as rules
import headtune.surgery.conforming.proofs as proofs
from headtune.errors import HeadtuneError
from headtune.surgery.arguments import check_arguments
from headtune.surgery.conforming.case import Case, Finding
from headtune.surgery.conforming.wording import sites_in_words
from headtune.surgery.find import find_sites


def conformance(case: Case, folder: Path) -> dict[str, Finding]:
    """Try every operation on the case's model, and compare each result with what it must be.

    Args:
        case: the family.
        folder: where a model may be written.

    Returns:
        ``found``, ``re-head``, ``resize``, ``prune``, ``merge`` and ``save/load`` → what each came to; ``found`` alone
        where the model's attention cannot be seen.

    Raises:
        SurgeryError: an argument is of the wrong type, or the case builds no module.
        AssertionError: an operation was done and its result is wrong, the one thing that must never happen.
    """
    check_arguments({"case": (case, rules.a(Case, "a Case")), "folder": (folder, rules.path)})
    model = case.build()
    check_arguments({f"build of {case.name}": (model, rules.a(nn.Module, "a function that returns a torch.nn.Module"))})
    model.eval()
    found = _tried(lambda: sites_in_words(find_sites(model, case.inputs)))
    if not found.proven:
        return {"found": found}
    sites = find_sites(model, case.inputs)
    return {
        "found": found,
        "re-head": _tried(lambda: proofs.rehead(case, model, sites)),
        "resize": _tried(lambda: proofs.resize(case, model, sites)),
        "prune": _tried(lambda: proofs.prune_heads(case, model, sites)),
        "merge": _tried(lambda: proofs.merge(case, model, sites)),
        "save/load": _tried(lambda: proofs.save_and_load(case, model, sites, folder)),
    }


def _tried(operation: Callable[[], str]) -> Finding:
    try:
        return Finding(proven=True, words=operation())
    except HeadtuneError as error:
        return Finding(proven=False, words=error.problems[0])
