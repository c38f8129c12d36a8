"""Hand-written blocks that read their width off their input, as in ``B, T, C = x.shape`` and ``C // self.n_head``."""

import re
import threading
from collections.abc import Mapping, Sequence
from types import MethodType

from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.attributes import set_values
from headtune.surgery.adapters.handwritten import Handwritten
from headtune.surgery.adapters.layout import Layout
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.probe import AttentionCall, Projections

_EMBED_NAME = re.compile(
    r"(n|d|dim)_?(embd?|embed|model|in)|(embed|emb|embedding|model|hidden|in)_?(dim|size|features|width)|dim|width|channels"
)


class InputSized:
    """Resizes a block whose forward takes its width from the input's last dimension, which is not the heads' width.

    Forward keeps its code: it is handed an input that has the heads' width but no values, and the projections read the
    true input in its stead. The values are NaN, so that a forward which uses its input for anything else shows at once.
    """

    reads_projections = True

    def __init__(self) -> None:
        self._handwritten = Handwritten()

    def matches(self, module: nn.Module) -> bool:
        """None by its class: this is what is tried where :class:`Handwritten` did not succeed."""
        return False

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """As for every hand-written block."""
        return self._handwritten.num_kv_heads(model, path, call)

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """As for every hand-written block."""
        return self._handwritten.why_not_rehead(model, site, wanted)

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """As for every hand-written block."""
        return self._handwritten.why_not_resize(model, site, projections, wanted)

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """As for every hand-written block."""
        self._handwritten.rehead(model, site, wanted)

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """Resize the projections, set the attributes, and hand forward an input of the heads' width."""
        self._handwritten.resize(model, site, projections, wanted)
        block = model.get_submodule(site.path)
        linears = [owner(model, weight)[1] for weight in Layout.of(projections).parts]
        let_see(block, linears, site.embed_dim, wanted.num_heads * wanted.head_dim)
        return model

    def settle(self, model: nn.Module) -> None:
        """Nothing."""


class Disguise:
    """Hands a block an empty input of another width, and its projections the true one, by hooks on both."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._worn = threading.local()

    def __reduce__(self) -> tuple[type["Disguise"], tuple[int]]:
        return Disguise, (self.width,)

    def put_on(
        self, block: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Before the block: in place of its first sequence, one without values."""
        true = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.is_floating_point()), None)
        if true is None:
            return args, kwargs
        empty = true.new_full((1,), float("nan")).expand(*true.shape[:-1], self.width)
        self._worn.true, self._worn.empty = true, empty
        swapped = {name: empty if value is true else value for name, value in kwargs.items()}
        return tuple(empty if value is true else value for value in args), swapped

    def look_under(self, linear: nn.Module, args: tuple[object, ...]) -> tuple[object, ...]:
        """Before a projection: the true input, where forward passes on what it was handed."""
        worn: Mapping[str, object] = vars(self._worn)
        return tuple(worn["true"] if worn and value is worn["empty"] else value for value in args)

    def take_off(self, block: nn.Module, args: object, output: object) -> None:
        """After the block: keep no tensor alive."""
        vars(self._worn).clear()


def _is_embed(name: str, value: object, embed_dim: int) -> bool:
    """Whether an attribute holds the embedding width."""
    return isinstance(value, int) and value == embed_dim and _EMBED_NAME.fullmatch(name.lower().lstrip("_")) is not None


def let_see(block: nn.Module, linears: Sequence[nn.Module], embed_dim: int, width: int) -> None:
    """Let *block* see the heads' width as that of its input, in its attributes too, and its projections the true input.

    Args:
        block: the attention block.
        linears: the projections that read its input.
        embed_dim: the true width.
        width: that of all heads together.
    """
    seen = undress(block, linears) or embed_dim
    set_values(block, lambda values: {name: width for name, value in values.items() if _is_embed(name, value, seen)})
    if width != embed_dim:
        dress(block, linears, width)


def dress(block: nn.Module, linears: Sequence[nn.Module], width: int) -> None:
    """Hand *block* inputs of the given width from now on, and its projections the true ones."""
    disguise = Disguise(width)
    block.register_forward_pre_hook(disguise.put_on, with_kwargs=True)
    block.register_forward_hook(disguise.take_off, always_call=True)
    for linear in linears:
        linear.register_forward_pre_hook(disguise.look_under)


def disguise_of(block: nn.Module) -> tuple[int, tuple[str, ...]] | None:
    """The width that *block* is handed, and the paths inside it of the projections that see through it; or None."""
    worn = next((found for hook in block._forward_pre_hooks.values() if (found := _disguise(hook, "put_on"))), None)
    if worn is None:
        return None
    seeing = [
        path
        for path, module in block.named_modules()
        if any(_disguise(hook, "look_under") is worn for hook in module._forward_pre_hooks.values())
    ]
    return worn.width, tuple(seeing)


def _disguise(hook: object, role: str) -> Disguise | None:
    """The disguise that a hook belongs to, if it is of that role."""
    if isinstance(hook, MethodType) and isinstance(hook.__self__, Disguise) and hook.__name__ == role:
        return hook.__self__
    return None


def undress(block: nn.Module, linears: Sequence[nn.Module]) -> int | None:
    """Take an earlier disguise off; returns its width, or None where there was none."""
    width = None
    for module in (block, *linears):
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key, hook in list(hooks.items()):
                if isinstance(hook, MethodType) and isinstance(hook.__self__, Disguise):
                    width = hook.__self__.width
                    del hooks[key]
                    module._forward_pre_hooks_with_kwargs.pop(key, None)
                    module._forward_hooks_always_called.pop(key, None)
    return width
