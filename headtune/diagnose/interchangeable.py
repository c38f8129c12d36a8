"""Which heads of a block could stand in for each other.

H heads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor, nn

from headtune.diagnose.arguments import Batches, Loss, check_arguments, first_and_rest
from headtune.diagnose.blocks import blocks
from headtune.diagnose.forward_inputs import forward_inputs
from headtune.diagnose.likeness import Likeness
from headtune.errors import TaskError
from headtune.surgery import Inputs, captured
from headtune.surgery.inputs import check_inputs
from headtune.surgery.refusals import check_workable
from headtune.surgery.snapshot import evaluating
from headtune.surgery.writing import values_kept

Pattern = Literal["itself", "previous", "everything"]
"""Where a head looks that hardly depends on what it reads: at its own position, at the one before, or evenly at all."""

ALIKE = 0.9
"""Heads that are at least so similar are interchangeable."""

MOSTLY = 0.9
"""A head has a pattern that holds for so much of its attention."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Redundancy:
    """How alike the heads of one attention block are, over the person's data.

    Attributes:
        maps: ``(H, H)`` mean cosine similarity of two heads' attention to the same keys, 0 to 1.
        outputs: ``(H, H)`` linear CKA of two heads' outputs, 0 to 1: 1 where each follows from the other by a rotation
            and a factor. With N positions, outputs of D features that have nothing in common come to about D / N.
        spread: ``(H,)`` share of the visible keys that a head attends to: the mean of exp(entropy) / keys.
        own: ``(H,)`` mean weight on the query's own position; 0 in cross-attention.
        before: ``(H,)`` the same on the position before it.
        positions: queries that were seen, over all batches; those that could see one key only do not count.
    """

    maps: Tensor
    outputs: Tensor
    spread: Tensor
    own: Tensor
    before: Tensor
    positions: int

    @property
    def similarity(self) -> Tensor:
        """``(H, H)``, the lesser of :attr:`maps` and :attr:`outputs`: alike are heads that look and say alike."""
        return torch.minimum(self.maps, self.outputs)

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Groups of interchangeable heads: within one, every two are at least :data:`ALIKE` similar."""
        heads = len(self.similarity)
        if heads < 2:
            return ()
        clustering = AgglomerativeClustering(
            n_clusters=None, metric="precomputed", linkage="complete", distance_threshold=1 - ALIKE
        )
        labels = clustering.fit_predict((1 - self.similarity).numpy()).tolist()
        groups = [tuple(head for head in range(heads) if labels[head] == label) for label in sorted(set(labels))]
        return tuple(sorted(group for group in groups if len(group) > 1))

    @property
    def spare(self) -> int:
        """How many heads could go if one of each cluster stayed."""
        return sum(len(cluster) - 1 for cluster in self.clusters)

    @property
    def patterns(self) -> tuple[Pattern | None, ...]:
        """For each head where it looks whatever it reads; ``None`` where that depends."""
        return tuple(map(_pattern, self.own.tolist(), self.before.tolist(), self.spread.tolist()))


def redundancy(
    model: nn.Module, batches: Batches, loss: Loss | None = None, *, paths: Iterable[str] | None = None
) -> dict[str, Redundancy]:
    """Compare the heads of every attention block: what they attend to, and what they put out.

    Args:
        model: runs in eval mode, and is left as it was.
        batches: the person's data, or a function that returns them; some thousand positions tell enough.
        loss: ``(model, batch) -> scalar tensor``: how a batch enters the model, by its first ``model(…)``; where it is
            left out, each batch is itself the arguments of ``forward``, as a tuple or a mapping.
        paths: the attention blocks to compare; all of them if ``None``.

    Returns:
        Path of an attention block → how alike its heads are, on the CPU in float64.

    Warns:
        UserWarning: names the blocks whose heads cannot be told apart; they are left out.

    Raises:
        InputError: an argument is of the wrong type (every one).
        TaskError: there is no batch, or in none of them does a query of a block see two keys.
        SurgeryError: a path is that of no attention block, or a forward pass raised.
    """
    check_workable(model)
    check_arguments("redundancy", batches, loss, paths)
    first, rest = first_and_rest("redundancy", batches)
    seen: dict[str, Likeness] = {}
    with torch.inference_mode(False), evaluating(model), values_kept(model):
        inputs = _inputs(model, first, loss)
        sites = {site.path: site for site in blocks(model, inputs, paths)}
        for given in chain([inputs], (_inputs(model, batch, loss) for batch in rest)):
            for path, calls in captured(model, given).items():
                if path in sites:
                    likeness = seen.setdefault(path, Likeness(own=sites[path].role != "cross"))
                    for call in calls:
                        likeness.add(call)
    if lonely := [path for path, likeness in seen.items() if likeness.count == 0]:
        raise TaskError(*(f"redundancy: {path or 'the model'}: no query sees more than one key" for path in lonely))
    return {path: _redundancy(seen[path]) for path in sites if path in seen}


def _inputs(model: nn.Module, batch: object, loss: Loss | None) -> Inputs:
    if loss is not None:
        return forward_inputs("redundancy", model, batch, loss, instead="leave loss out, and give those as batches")
    check_inputs(batch)
    given: Inputs = batch  # type: ignore[assignment]
    return given


def _redundancy(seen: Likeness) -> Redundancy:
    spread, own, before = seen.looks
    return Redundancy(maps=seen.maps, outputs=seen.outputs, spread=spread, own=own, before=before, positions=seen.count)


def _pattern(own: float, before: float, spread: float) -> Pattern | None:
    if own >= MOSTLY:
        return "itself"
    if before >= MOSTLY:
        return "previous"
    return "everything" if spread >= MOSTLY else None
