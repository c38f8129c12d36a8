"""One forward pass, ready to be timed: model and inputs on the protocol's device, in its dtype."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import HeadtuneError, InputError, MeasurementError, in_words, out_of_memory
from headtune.surgery.adapters.ownership import shared
from headtune.surgery.inputs import Inputs, own_copy
from headtune.surgery.snapshot import evaluating
from headtune.surgery.writing import values_kept
from headtune.timing.device import synchronize
from headtune.timing.inputs import Given, held_tensors, leaves, placed
from headtune.timing.lane import Lane
from headtune.timing.protocol import Dtype, LatencyProtocol

_DTYPES: dict[Dtype, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A model with the arguments of its forward pass.

    Attributes:
        name: how messages call the model.
        model: in eval mode, on the device, in the dtype that is timed.
        given: its arguments.
    """

    name: str
    model: nn.Module
    given: Given

    def __call__(self) -> object:
        """One pass."""
        return self.model(*self.given.args, **self.given.kwargs)

    def first_pass(self, protocol: LatencyProtocol) -> None:
        """The pass that shows whether the model runs at all, and that compiles and caches what it wants to.

        Without inference mode: what a model caches in it outside of its modules, such as a mask, could not be trained
        with afterwards.

        Raises:
            MeasurementError: the model raised, or it writes into its parameters.
        """
        named = dict(self.model.named_parameters())
        versions = {name: parameter._version for name, parameter in named.items() if not parameter.is_inference()}
        remedy = "make inputs return what its forward takes"
        with torch.no_grad(), self.blamed("forward pass", remedy), values_kept(self.model):
            self.under(protocol)()
            synchronize(protocol.device)
        self.given.renew()
        written = [name for name, version in versions.items() if named[name]._version != version]
        if written and protocol.mode != "train_step":
            raise MeasurementError(
                f"{self.name} writes into its parameters in forward ({', '.join(written[:3])}"
                f"{' and more' if len(written) > 3 else ''}), which timing it would do again and again; "
                f"write them outside of forward"
            )

    def under(self, protocol: LatencyProtocol) -> Callable[[], object]:
        """One pass under the protocol's autocast."""
        if protocol.autocast is None:
            return self

        def call() -> object:
            with autocasting(protocol):
                return self()

        return call

    def tensors(self) -> Iterator[Tensor]:
        """Parameters, buffers and inputs."""
        yield from chain(
            self.model.parameters(), self.model.buffers(), held_tensors((self.given.args, self.given.kwargs))
        )

    @contextmanager
    def blamed(self, doing: str = "forward pass", remedy: str = "it had run before with the same") -> Iterator[None]:
        """What the model raises in here becomes an error that names it, what it was *doing*, and a *remedy*.

        Raises:
            MeasurementError: the model raised.
        """
        try:
            yield
        except (HeadtuneError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if out_of_memory(error):
                raise  # the caller knows what a plan that does not fit means
            came = ", ".join(f"{t.dtype} {list(t.shape)} on {t.device}" for t in self._inputs()) or "no tensors"
            raise MeasurementError(
                f"{self.name} failed in its {doing}: {in_words(error)}; it was given {came}: {remedy}"
            ) from error

    def _inputs(self) -> Iterator[Tensor]:
        return leaves((self.given.args, self.given.kwargs))


@contextmanager
def autocasting(protocol: LatencyProtocol) -> Iterator[None]:
    """The protocol's autocast, if any; weights that it cast are forgotten afterwards, as after a user's own step."""
    if protocol.autocast is None:
        yield
        return
    with torch.autocast(torch.device(protocol.device).type, dtype=_DTYPES[protocol.autocast]):
        yield
    torch.clear_autocast_cache()


def check_arguments(
    function: str, model: object, protocol: object, reference: object = None, lane: object = None
) -> None:
    """Make sure that what a measuring *function* was given are models and a protocol.

    Raises:
        InputError: every argument that is not.
    """
    problems = rules.broken(
        {
            "model": (model, rules.a(nn.Module, "a torch.nn.Module")),
            "protocol": (protocol, rules.a(LatencyProtocol, "a LatencyProtocol")),
            "reference": (reference, rules.optional(rules.a(nn.Module, "a torch.nn.Module or None"))),
            "lane": (lane, rules.optional(rules.a(Lane, "a Lane or None"))),
        }
    )
    if problems:
        raise InputError(*(f"{function}: {problem}" for problem in problems))


@contextmanager
def prepared(model: nn.Module, inputs: Inputs, protocol: LatencyProtocol, name: str = "the model") -> Iterator[Forward]:
    """The model's forward pass under a resolved protocol; afterwards the model is as it was, and so are the inputs.

    A model of another device or dtype is copied, and the copy moved and cast; one that takes training steps is always
    copied, and its copy is in training mode.

    Raises:
        MeasurementError: the model must be copied and cannot.
    """
    device, dtype = torch.device(protocol.device), _DTYPES[protocol.dtype]
    learns = protocol.mode == "train_step"
    with torch.inference_mode(False):  # else copies could not be trained
        timed = model if _fits(model, device, dtype) and not learns else _moved(model, device, dtype, name)
        given: Any = placed(own_copy(inputs), device, dtype)
    with nullcontext(timed.train()) if learns else evaluating(timed):
        yield Forward(name=name, model=timed, given=Given(given))


def _fits(model: nn.Module, device: torch.device, dtype: torch.dtype) -> bool:
    tensors = chain(model.parameters(), model.buffers())
    return all(t.device == device and (t.dtype == dtype or not t.is_floating_point()) for t in tensors)


def _moved(model: nn.Module, device: torch.device, dtype: torch.dtype, name: str) -> nn.Module:
    try:
        if any(parameter.is_meta for parameter in model.parameters()):
            raise ValueError("it is on the meta device, where there are no weights: time it block by block, sum_blocks")
        moved = copy.deepcopy(model)
        common = shared(model, moved)
        if common:  # to move the copy would move the model
            raise ValueError(f"its copy shares {', '.join(common)} with it")
        moved.to(device)
        for tensor in chain(moved.parameters(), moved.buffers()):
            if tensor.is_floating_point():  # Module.to(dtype) would cut complex buffers, such as rotary ones, to reals
                tensor.data = tensor.data.to(dtype)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if out_of_memory(error):
            raise
        raise MeasurementError(
            f"{name} cannot be copied to {device} in {dtype} ({in_words(error)}); "
            f"move and cast it there yourself before measuring"
        ) from error
    return moved
