"""A model that computes with any plan of a space, on weights that all plans share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.heads.space import SearchSpace
from headtune.surgery.adapters import FALLBACK, adapters
from headtune.surgery.inputs import Inputs
from headtune.surgery.opening import opened, why_not_opened
from headtune.surgery.sharing.edits import Edit, made
from headtune.surgery.sharing.variants import Variants
from headtune.surgery.sharing.widest import Counts, Unit, units, wants_other_sizes, widest
from headtune.surgery.transaction import apply_plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supernet:
    """A model with the widest counts of a space, and what each of its choices changes in it.

    Under ``hold: width`` every plan has all weights, split otherwise. Under ``hold: head_dim`` a plan of h heads has
    the first h of each site, of each head its first features, and the first key/value heads. Every choice at every
    site was made once by surgery, and watched; to change between plans is to put aside some attributes, which takes no
    pass of the model.

    Attributes:
        model: with the widest counts; its parameters are the shared weights.
        largest: the counts that it has outside of :meth:`at`.

    References:
        Yu and Huang, Universally slimmable networks and improved training techniques, 2019,
        https://arxiv.org/abs/1903.05134
    """

    model: nn.Module
    largest: HeadPlan
    changes: Mapping[Unit, Mapping[Counts, tuple[Edit, ...]]]

    @classmethod
    def of(cls, model: nn.Module, inputs: Inputs, space: SearchSpace, *, seed: int = 0) -> "Supernet":
        """The supernet of *model*, which is edited and from here on a part of it.

        Args:
            model: as its sites were found, on the device where it is to run.
            inputs: arguments of ``forward``, on that device.
            space: of fresh weights.
            seed: of weights that are drawn anew, where the widest plan is wider than the model.

        Raises:
            SurgeryError: a choice cannot be made, or its weights are no part of the widest ones (every reason).
        """
        hold, plan = space.options.hold, widest(space)
        model = apply_plan(model, plan, inputs, hold=hold, seed=seed, copy=False, sites=space.sites)
        sites = [replace(site, **plan[site.path]._asdict()) for site in space.sites]
        sized = [site for site in sites if wants_other_sizes(space, site, plan[site.path])]
        problems = [
            f"{site.path or 'the model'}: {reason or 'a model that is itself the attention block cannot share weights'}"
            for site in sized
            if (reason := why_not_opened(model, site)) is not None or not site.path
        ]
        if problems:
            raise SurgeryError(*problems)
        opened(model, sized)
        for adapter in (*adapters(), FALLBACK):
            adapter.settle(model)
        return cls(model=model, largest=plan, changes=_changes(Variants(model, inputs, plan, hold), units(space)))

    @contextmanager
    def at(self, plan: HeadPlan) -> Iterator[nn.Module]:
        """The model with the counts of *plan*, as long as the block runs.

        Its weights are the shared ones or parts of them, taken when the block is entered: call ``backward`` inside, and
        once; step the optimizer outside. Without gradients the parts are parameters of their own.

        Raises:
            PlanError: the space has no such plan.
        """
        with made([edit for unit, counts in self.changes.items() for edit in _at(unit, counts, plan)]):
            yield self.model


def _at(unit: Unit, changes: Mapping[Counts, tuple[Edit, ...]], plan: HeadPlan) -> tuple[Edit, ...]:
    wanted = tuple(plan[path] for path in unit.paths)
    if wanted not in changes:
        raise PlanError(f"{unit.paths[0] or 'the model'}: the supernet has no {wanted[0]}: its space does not")
    return changes[wanted]


def _changes(variants: Variants, decisions: tuple[Unit, ...]) -> dict[Unit, dict[Counts, tuple[Edit, ...]]]:
    """What each choice changes.

    Raises:
        SurgeryError: a choice cannot be made, or two sites change one thing in two ways (every reason).
    """
    found: dict[Unit, dict[Counts, tuple[Edit, ...]]] = {}
    problems: list[str] = []
    for unit in decisions:
        found[unit] = {}
        for option in unit.options:
            try:
                found[unit][option] = variants.edits(dict(zip(unit.paths, option, strict=True)))
            except SurgeryError as error:
                problems += error.problems
    problems += [] if problems else _clashes(found)
    if problems:
        raise SurgeryError(*dict.fromkeys(problems))
    return found


def _clashes(found: Mapping[Unit, Mapping[Counts, tuple[Edit, ...]]]) -> Iterator[str]:
    """Things outside of the blocks that two sites change, each for itself."""
    known: dict[object, tuple[Unit, Edit]] = {}
    for unit, changes in found.items():
        for edit in (edit for edits in changes.values() for edit in edits):
            other, first = known.setdefault(edit.place, (unit, edit))
            if other is not unit and not edit.agrees(first):
                module, _, name = edit.place
                yield (
                    f"{unit.paths[0] or 'the model'}: its counts change {name} of a {type(module).__name__}, as those "
                    f"of {other.paths[0]} do; let them change together, by `tie: uniform` in space"
                )
