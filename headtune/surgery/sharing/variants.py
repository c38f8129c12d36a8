"""Surgery on a model for one choice at a time, taken back, with what it changed."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import Hold
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.changes import changes
from headtune.surgery.inputs import Inputs
from headtune.surgery.original import Original
from headtune.surgery.perform import perform
from headtune.surgery.sharing.edits import Edit, difference, held
from headtune.surgery.sharing.share import Picks, made_picks, read_picks, share_of, why_not_shared
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.wiring import Followed, follow

PARAMETERS = "_parameters"


class Variants:
    """What other counts change in a model with the widest ones.

    Args:
        model: left as it is.
        inputs: arguments of its ``forward``.
        plan: its counts.
        hold: what stays when they change.
    """

    def __init__(self, model: nn.Module, inputs: Inputs, plan: HeadPlan, hold: Hold) -> None:
        self._model, self._inputs, self._plan, self._hold = model, inputs, plan, hold
        self._original = Original(model, inputs)
        self._before = held(model)
        self._modules = frozenset(model.modules())
        self._shared = dict(model.named_parameters(remove_duplicate=False))

    def edits(self, counts: Mapping[str, HeadCount]) -> tuple[Edit, ...]:
        """The edits that give some sites other counts; the model was watched with them.

        Raises:
            SurgeryError: it does not take them, or its weights would be no part of the shared ones (every reason).
        """
        plan = HeadPlan.of({**dict(self._plan.counts), **counts})
        made = changes(self._original, plan, self._original.sites)
        problems = [reason for change in made if (reason := change.why_not(self._model)) is not None]
        if problems:
            raise SurgeryError(*problems)
        if not made:
            return ()
        resized = [change.site.path for change in made if change.resizes]
        whole = self._wires if resized else None  # followed before the model changes
        snapshot = Snapshot.of(self._model)
        try:
            perform(self._model, plan, made, self._original, seed=0)
            made_of, read_of = ({}, {}) if whole is None else self._picks(resized, whole)
            return (*self._kept(), *self._shares(made_of, read_of))
        finally:
            snapshot.restore()

    @cached_property
    def _wires(self) -> Followed:
        """Of the model as it is."""
        return follow(self._model, self._inputs)

    def _kept(self) -> Iterator[Edit]:
        """Everything that surgery changed, but for weights."""
        for edit in difference(self._before, held(self._model)):
            _, name, _ = edit.place
            if name != PARAMETERS or not isinstance(edit.value, nn.Parameter):
                yield edit

    def _shares(self, made: Picks, read: Picks) -> list[Edit]:
        """The weights that surgery put in, as parts of the shared ones."""
        found, problems = [], []
        for name, new in self._model.named_parameters(remove_duplicate=False):
            old = self._shared.get(name)
            if new is old:
                continue
            module, key = owner(self._model, name)[1], name.rpartition(".")[2]
            share = None if old is None else share_of(module, name, new, old, made, read)
            if share is None:
                problems.append(why_not_shared(name, new, old))
            else:
                found.append(Edit(place=(module, PARAMETERS, key), value=share))
        if problems:
            raise SurgeryError(*problems)
        self._let_go(found)
        return found

    def _let_go(self, edits: list[Edit]) -> None:
        """Blocks that took the place of others need no weights but shared ones."""
        for module, name, key in (edit.place for edit in edits):
            if module not in self._modules:
                vars(module)[name][key] = None

    def _picks(self, paths: list[str], whole: Followed) -> tuple[Picks, Picks]:
        """Which features of the shared weights those of the changed blocks are; the model holds these blocks now.

        Raises:
            SurgeryError: the heads of a block cannot be told apart (every reason).
        """
        ours = follow(self._model, self._inputs)
        made: dict[str, Mapping[int, int]] = {}
        read: dict[str, Mapping[int, int]] = {}
        problems = []
        for path in paths:
            if path in whole.wirings and path in ours.wirings:
                made |= made_picks(ours.wirings[path], whole.wirings[path], self._hold)
                read |= read_picks(ours.wirings[path], whole.wirings[path], self._hold)
            else:
                reason = whole.reasons.get(path) or ours.reasons.get(path) or "its heads cannot be told apart"
                problems.append(f"{path}: {reason}; so that plans cannot share its weights: use `evaluator: train`")
        if problems:
            raise SurgeryError(*problems)
        return made, read
