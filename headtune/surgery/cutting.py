"""What goes with the heads that go: features of projections, counts."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery.adapters import adapter_for
from headtune.surgery.adapters.input_sized import let_see
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.slicing import drop_copies, drop_inputs, drop_last, drop_outputs, silence
from headtune.surgery.wiring import Wiring

Features = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one site loses.

    Attributes:
        site: the site, with key/value heads as its wiring has them.
        wanted: the counts that are left.
        projections: the weights that make queries, keys and values.
        made: weight → the features that it puts out no more.
        read: weight → the features that it reads no more.
        copies: weight → features that stay, each with the number of a head's own copy, where heads share it.
    """

    site: AttentionSite
    wanted: HeadCount
    projections: tuple[str, ...]
    made: Features
    read: Features
    copies: Mapping[str, frozenset[tuple[int, int]]]

    @classmethod
    def of(cls, site: AttentionSite, wiring: Wiring, kept: Sequence[int]) -> "Cut":
        """The cut that leaves the *kept* heads, and everything that one of them needs."""
        every = range(wiring.num_heads)
        kv_heads = len({wiring.kv_heads[head] for head in kept})
        return cls(
            site=replace(site, num_kv_heads=wiring.num_kv_heads),
            wanted=HeadCount(len(kept), kv_heads, site.head_dim),
            projections=tuple(wiring.of_heads(every)),
            made=_without(wiring.of_heads(every), wiring.of_heads(kept)),
            read=_without(wiring.read_from(every), wiring.read_from(kept)),
            copies=_copies(wiring, kept),
        )


@dataclass(frozen=True, slots=True)
class Cuts:
    """What all sites lose, at once."""

    cuts: tuple[Cut, ...]

    @classmethod
    def of(cls, sites: Sequence[AttentionSite], found: Mapping[str, Wiring], mask: HeadMask) -> "Cuts":
        """The cuts that leave the heads of *mask* at the *sites*.

        Args:
            sites: those that lose heads.
            found: the wiring of these, and of other blocks.
            mask: the heads that stay.

        Raises:
            PlanError: key/value heads would be left with unequal numbers of query heads.
            SurgeryError: the heads that stay would meet other key/value heads, or another block needs what goes.
        """
        uneven = [problem for site in sites for problem in _uneven(site, found[site.path], mask.heads(site))]
        if uneven:
            raise PlanError(*uneven)
        cuts = tuple(Cut.of(site, found[site.path], mask.heads(site)) for site in sites)
        kept = {cut.site.path: mask.heads(cut.site) for cut in cuts}
        problems = [problem for cut in cuts for problem in _reordered(cut, found[cut.site.path], kept[cut.site.path])]
        problems += [problem for cut in cuts for problem in _needed_elsewhere(cut, found, kept)]
        if problems:
            raise SurgeryError(*problems)
        return cls(cuts)

    def silence(self, model: nn.Module) -> None:
        """Let the output projections ignore the heads that go."""
        for name, features in _union([cut.read for cut in self.cuts]).items():
            silence(owner(model, name)[1], features)

    def make(self, model: nn.Module, input_sized: Container[str] = ()) -> None:
        """Take the heads out, and set the counts.

        Args:
            model: whose blocks have projections of their own.
            input_sized: paths of blocks that read the heads' width off their input.
        """
        for cut in self.cuts:
            for name, copies in cut.copies.items():
                if isinstance(linear := owner(model, name)[1], SharedLinear):
                    drop_copies(linear, copies)
        for name, features in _union([cut.made for cut in self.cuts]).items():
            path, module = owner(model, name)
            drop_outputs(module, features)
            block = model.get_submodule(path.rpartition(".")[0])
            if isinstance(block, HeadedAttention):
                _shorten_bias(block, module, features)
        for name, features in _union([cut.read for cut in self.cuts]).items():
            drop_inputs(owner(model, name)[1], features)
        for cut in self.cuts:
            block = model.get_submodule(cut.site.path)
            adapter_for(block).rehead(model, cut.site, cut.wanted)
            if cut.site.path in input_sized:
                linears = [owner(model, name)[1] for name in cut.projections]
                let_see(block, linears, cut.site.embed_dim, cut.wanted.num_heads * cut.wanted.head_dim)


def _copies(wiring: Wiring, kept: Sequence[int]) -> dict[str, frozenset[tuple[int, int]]]:
    copies: dict[str, set[tuple[int, int]]] = {}
    for head in kept:
        number = wiring.kv_heads[:head].count(wiring.kv_heads[head])
        for features, copy in ((wiring.q[head], 0), (wiring.k[head], number), (wiring.v[head], number)):
            for name, indices in features.items():
                copies.setdefault(name, set()).update((index, copy) for index in indices)
    return {name: frozenset(found) for name, found in copies.items()}


def _shorten_bias(block: HeadedAttention, projection: nn.Module, dropped: frozenset[int]) -> None:
    """The learned extra key and value lose what the projection of keys and values loses."""
    for bias, side in (("bias_k", block.k_proj), ("bias_v", block.v_proj)):
        if projection is side and block._parameters.get(bias) is not None:
            drop_last(block, bias, dropped)


def _uneven(site: AttentionSite, wiring: Wiring, kept: Sequence[int]) -> Iterator[str]:
    sizes = Counter(wiring.kv_heads[head] for head in kept)
    if len(set(sizes.values())) > 1:
        groups = ", ".join(f"key/value head {group} keeps {size}" for group, size in sorted(sizes.items()))
        group_size = wiring.num_heads // wiring.num_kv_heads
        yield f"{site.path or 'the model'}: {groups}; keep equally many of each {group_size}, or none"


def _reordered(cut: Cut, wiring: Wiring, kept: Sequence[int]) -> Iterator[str]:
    """A forward pass pairs heads by their numbers: neighbours share a key/value head, or every n-th do."""
    order = list(dict.fromkeys(sorted(wiring.kv_heads[head] for head in kept)))
    pairs = [order.index(wiring.kv_heads[head]) for head in kept]
    heads, kv_heads, _ = cut.wanted
    neighbours = [head // (heads // kv_heads) for head in range(heads)]
    every_nth = [head % kv_heads for head in range(heads)]
    were_neighbours = list(wiring.kv_heads) == sorted(wiring.kv_heads)
    if pairs != (neighbours if were_neighbours else every_nth):
        yield (
            f"{cut.site.path or 'the model'}: its heads share key/value heads in turn, and those that stay would be "
            f"paired with others; keep heads whose turns come in the same order"
        )


def _needed_elsewhere(cut: Cut, found: Mapping[str, Wiring], kept: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Features that go here and that a head needs which stays in another block."""
    for path, wiring in found.items():
        heads = kept.get(path, range(wiring.num_heads))
        for gone, needed in ((cut.made, wiring.of_heads(heads)), (cut.read, wiring.read_from(heads))):
            for name in gone:
                if path != cut.site.path and gone[name] & needed.get(name, frozenset()):
                    yield (
                        f"{cut.site.path or 'the model'}: {path or 'the model'} uses the same features of {name}; "
                        "keep the same heads in both"
                    )


def _without(features: Features, needed: Features) -> Features:
    rest = {name: indices - needed.get(name, frozenset()) for name, indices in features.items()}
    return {name: indices for name, indices in rest.items() if indices}


def _union(parts: Sequence[Features]) -> Features:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: frozenset().union(*(part.get(name, frozenset()) for part in parts)) for name in names}
