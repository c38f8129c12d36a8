"""Which kernel computes the attention of each site, as seen in one pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headtune.surgery.inputs import Inputs
from headtune.timing.conditions import conditions
from headtune.timing.forward import check_arguments, prepared
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.paths import sites_at
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.traits.plain import one_pass
from headtune.timing.traits.rerouting import Function, Rerouted

KERNELS: Mapping[str, str] = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash for the CPU",
    "_scaled_dot_product_efficient_attention": "memory-efficient",
    "_scaled_dot_product_cudnn_attention": "cuDNN",
    "_scaled_dot_product_fused_attention_overrideable": "the device's own fused",
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_attention_math_for_mps": "math for MPS",
    "_native_multi_head_attention": "native multi-head",
    "_transformer_encoder_layer_fwd": "native encoder layer",
    "flex_attention": "flex",
}
"""PyTorch's operations that compute attention whole, in words."""

WRITTEN_OUT = "written out"
"""Products and a softmax of the model's own."""

_PRODUCTS = frozenset({"bmm", "baddbmm", "baddbmm_", "matmul", "einsum"})
_SOFTMAX = frozenset({"softmax", "_softmax", "_safe_softmax"})
_WHOLE = torch.ops.aten.scaled_dot_product_attention.default
_ENCODER_LAYER = "_transformer_encoder_layer_fwd"


def attention_kernels(
    model: nn.Module, inputs: Inputs | InputsFactory, protocol: LatencyProtocol, paths: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Watch one eager pass in inference mode, as it is timed, and name what computes each site's attention.

    PyTorch's fast paths stay on: no module gets a hook. Where the protocol compiles the model, the compiler may choose
    otherwise.

    Args:
        model: as for :func:`~headtune.timing.latency.measure`.
        inputs: likewise.
        protocol: likewise; a forward pass at the longest sequence length is watched, whatever its mode.
        paths: the attention sites, as in ``model.named_modules()``.

    Returns:
        Path → the kernels that ran there, values of :data:`KERNELS` or :data:`WRITTEN_OUT`; none where what ran is
        no attention that is known by name.

    Raises:
        InputError: an argument of the wrong kind, or a path that the model does not have.
        MeasurementError: a device that is not there, or a model that raises.
    """
    check_arguments("attention_kernels", model, protocol)
    protocol = one_pass(protocol, eager=True)
    with conditions(protocol):
        arguments, _ = ready_inputs(inputs, protocol)
        with prepared(model, arguments, protocol) as forward:
            forward.first_pass(protocol)  # what the model caches in it must not be made in inference mode
            sites = sites_at(forward.model, paths)
            seen = _Watcher({module: path for path, module in sites})
            functions = {module: seen.inside(path, module.forward) for path, module in sites}
            watched = replace(forward, model=Rerouted(forward.model, functions))
            with torch.inference_mode(), seen, forward.blamed():
                watched.under(protocol)()
    return {path: seen.kernels(path) for path, _ in sites}


class _Watcher(TorchDispatchMode):
    """Sees every operation that a device computes, and which site was running."""

    supports_higher_order_operators = True

    def __init__(self, sites: Mapping[nn.Module, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._running: list[str] = []
        self._operations: dict[str, dict[str, None]] = {path: {} for path in sites.values()}
        self._weights = {id(one): path for module, path in sites.items() for one in module.parameters()}

    def inside(self, path: str, function: Function) -> Function:
        """The site's *function*, during which operations are that site's."""

        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            with self._in(path):
                return function(*args, **kwargs)

        return watched

    def kernels(self, path: str) -> tuple[str, ...]:
        """What computed attention at the site."""
        names = self._operations[path]
        fused = tuple(KERNELS[name] for name in names if name in KERNELS)
        if fused or not (names.keys() & _SOFTMAX and names.keys() & _PRODUCTS):
            return fused
        return (WRITTEN_OUT,)

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Note an operation, and run it."""
        given = dict(kwargs or {})
        if func is _WHOLE:
            with self:  # in inference mode it would go to the device whole, and the choice of a kernel unseen
                return func.decompose(*args, **given)
        name = func.__name__.partition(".")[0]
        if name == _ENCODER_LAYER:  # it runs no module: its weights say whose it is
            weights = (self._weights.get(id(one)) for one in args if isinstance(one, Tensor))
            owners = dict.fromkeys(path for path in weights if path is not None)
        else:
            owners = dict.fromkeys(self._running[-1:])
        for path in owners:
            self._operations[path][name] = None
        return func(*args, **given)

    @contextmanager
    def _in(self, path: str) -> Iterator[None]:
        self._running.append(path)
        try:
            yield
        finally:
            self._running.pop()
