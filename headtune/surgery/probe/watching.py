"""One forward pass under observation."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtune.surgery.inputs import Inputs, call
from headtune.surgery.probe.call import AttentionCall, Frame
from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.rng import isolated
from headtune.surgery.snapshot import evaluating
from headtune.surgery.writing import values_kept


class ForwardFailed(Exception):
    """The model raised while it was watched; whoever watches says what that means.

    Attributes:
        path: the module that was running.
        error: what it raised.
    """

    def __init__(self, path: str, error: BaseException) -> None:
        super().__init__(path, error)
        self.path = path
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one forward pass computed.

    Attributes:
        calls: every attention computation, in order.
        unplaced: paths of modules that weight values by a softmax which is not one of query-key scores.
        nan: whether the model's output holds a NaN.
    """

    calls: tuple[AttentionCall, ...]
    unplaced: tuple[str, ...]
    nan: bool


def watch(model: nn.Module, inputs: Inputs) -> Watched:
    """Run *model* once, in eval mode and without gradients, and see the attention that it computes.

    While it is watched, PyTorch takes its ordinary paths instead of the fused encoder layer, and compiled modules run
    eagerly. The model is left as it was: attributes, training modes, hooks, parameters, buffers, and the random state;
    so are the inputs.

    Raises:
        ForwardFailed: the forward pass raised.
    """
    recorder = Recorder(model)
    with torch.no_grad():
        output = observe(model, inputs, recorder, _Watcher(recorder))
    return Watched(
        calls=tuple(recorder.calls), unplaced=tuple(dict.fromkeys(recorder.unplaced)), nan=_holds_nan(output)
    )


def observe(model: nn.Module, inputs: Inputs, recorder: Recorder, mode: TorchFunctionMode) -> object:
    """What *model* returns, run once in eval mode with *mode* seeing every function; it is left as it was.

    Raises:
        ForwardFailed: the forward pass raised.
    """
    with evaluating(model), values_kept(model), isolated(model):
        try:
            with _eager(model), _framed(model, recorder), mode:
                return call(model, inputs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ForwardFailed(recorder.frames[-1].path if recorder.frames else "", error) from error


class _Watcher(CallMode):
    """Passes every PyTorch function call on to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def see(self, call: FunctionCall) -> object:
        """Make the call, and pass it on."""
        result = call.run()
        self._recorder.see(call.function, call.args, call.kwargs, result)
        return result


@contextmanager
def _framed(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Keep the recorder's stack of running modules up to date, by hooks on every module."""
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_pre_hook(_enter(path, recorder), with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(_leave(path, recorder)))
        yield


def _enter(path: str, recorder: Recorder) -> Callable[[nn.Module, tuple[object, ...], dict[str, object]], None]:
    def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        with torch._C.DisableTorchFunction():
            sequences = [
                value
                for value in (*args, *kwargs.values())
                if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
            ]
            different = len({id(value) for value in sequences})
            width = sequences[0].shape[-1] if sequences else None
        recorder.frames.append(Frame(path=path, width=width, sequences=different))

    return hook


def _leave(path: str, recorder: Recorder) -> Callable[[nn.Module, object, object], None]:
    def hook(module: nn.Module, args: object, output: object) -> None:
        # A module that raised stays on the stack, so that an error can be placed. Who caught it leaves here.
        while recorder.frames and recorder.frames.pop().path != path:
            pass

    return hook


def _holds_nan(output: object) -> bool:
    """Whether a NaN is in any tensor of a nested output."""
    if isinstance(output, Tensor):
        return not output.is_meta and bool(output.isnan().any())
    if isinstance(output, Mapping):
        return any(map(_holds_nan, output.values()))
    return isinstance(output, list | tuple) and any(map(_holds_nan, output))


@contextmanager
def _eager(model: nn.Module) -> Iterator[None]:
    """Keep compiled modules from compiling what they run: the compiler cannot look into the watching mode."""
    if not any(_is_compiled(module) for module in model.modules()):
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _is_compiled(module: nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
