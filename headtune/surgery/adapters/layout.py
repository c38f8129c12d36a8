"""Which projections of a hand-written block hold which heads, by what the probe saw.

H query heads, K key/value heads, D features per head.
"""

from dataclasses import dataclass

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.nn import SharedLinear
from headtune.surgery.adapters.linears import features, why_not_linear, why_not_plain
from headtune.surgery.adapters.ownership import owner, tied
from headtune.surgery.probe import AttentionCall, Projections

_ROLES = {"q": "queries", "k": "keys", "v": "values"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The projections of one attention block.

    Attributes:
        parts: weight name → which of ``q``, ``k``, ``v`` its rows make, in that order.
        out: name of the weight that reads the heads' output.
    """

    parts: dict[str, str]
    out: str

    @classmethod
    def of(cls, projections: Projections) -> "Layout":
        """The layout of a block whose queries, keys, values and output each have one projection."""
        seen = {"q": projections.q, "k": projections.k, "v": projections.v}
        names = {letter: next(iter(weights)) for letter, weights in seen.items()}
        parts = {name: "".join(letter for letter in "qkv" if names[letter] == name) for name in names.values()}
        return cls(parts=parts, out=next(iter(projections.out)))

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of all weights."""
        return (*self.parts, self.out)


def rows(part: str, count: HeadCount) -> int:
    """Output features of a projection that makes the given letters."""
    return count.head_dim * sum(count.num_heads if letter == "q" else count.num_kv_heads for letter in part)


def kv_heads_by_rows(model: nn.Module, call: AttentionCall) -> int | None:
    """K by the rows of the key projection, ``(H·[q] + K·[k] + K·[v]) · D``; None where they do not say."""
    if len(call.projections.k) != 1 or "" in call.projections.k:
        return None
    name = next(iter(call.projections.k))
    _, module = owner(model, name)
    if not isinstance(module, SharedLinear) and why_not_linear(model, name) is not None:
        return None
    queries = call.num_heads if name in call.projections.q else 0
    shares = 2 if name in call.projections.v else 1
    heads, rest = divmod(features(module)[0], call.head_dim)
    kv_heads, uneven = divmod(heads - queries, shares)
    fits = not rest and not uneven and kv_heads > 0 and call.num_heads % kv_heads == 0
    return kv_heads if fits else None


def why_not(model: nn.Module, site: AttentionSite, seen: Projections) -> str | None:
    """Why the block's projections cannot be resized, as a sentence; None when they can."""
    used = seen.q | seen.k | seen.v | seen.out
    if "" in used and any(one.is_meta for name, one in model.named_parameters() if name.startswith(site.path)):
        return "its weights are offloaded (on the meta device but while they are used); load the whole model first"
    for letter, words in _ROLES.items():
        if reason := _why_not_one({"q": seen.q, "k": seen.k, "v": seen.v}[letter], f"its {words} come from"):
            return reason
    if reason := _why_not_one(seen.out, "its output is read by"):
        return reason
    layout = Layout.of(seen)
    for name in layout.weights:
        if reason := why_not_linear(model, name) or why_not_plain(model, name):
            return reason
    for name, part in layout.parts.items():
        expected, found = rows(part, site.present), features(owner(model, name)[1])[0]
        if expected != found:
            return (
                f"{name} has {found} rows, where {site.present} needs {expected}; headtune does not know what they mean"
            )
    if (found := features(owner(model, layout.out)[1])[1]) != site.width:
        return f"{layout.out} reads {found} features, where the heads put out {site.width}"
    ties = tied(model, layout.weights)
    return f"{ties[0]}: untie them first, or change neither" if ties else None


def _why_not_one(weights: frozenset[str], verb: str) -> str | None:
    if not weights:
        return f"{verb} no projection that headtune could see; use nn.Linear"
    if "" in weights:
        return (
            f"{verb} a weight that is computed in the forward pass; remove weight_norm, quantisation or the like first"
        )
    if len(weights) > 1:
        return f"{verb} several projections ({', '.join(sorted(weights))}); merge adapters such as LoRA first"
    return None
