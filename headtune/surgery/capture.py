"""What every head attends to and puts out, in one forward pass.

B batch, H heads, T queries, S keys, D features per head.
"""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError, in_words
from headtune.surgery.attention_maps import multi_head, sdpa_maps
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.located import block_path
from headtune.surgery.placement import Placement, Placer, weights_and_values
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.operations import MULTI_HEAD, SDPA
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe
from headtune.surgery.refusals import check_workable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Captured:
    """One attention computation.

    Attributes:
        maps: ``(B, H, T, S)``, the weights that each head gives to the keys.
        outputs: ``(B, T, H, D)``, the weighted values, as the output projection reads them.
    """

    maps: Tensor
    outputs: Tensor


def captured(model: nn.Module, inputs: Inputs) -> dict[str, tuple[Captured, ...]]:
    """The attention maps and outputs of every head, for every attention block by its path.

    Maps of fused kernels are computed from the queries, keys, mask and scale that these were given, in float32 at
    least; maps of attention that is written out are those of the model. Heads are counted as everywhere in headtune.
    The model runs twice, in eval mode and without gradients, and is left as it was.

    Args:
        model: any eager module; of a compiled one, the Python code is run.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.

    Returns:
        Path of a block → one value for each time that the model runs it.

    Warns:
        UserWarning: names the blocks whose heads cannot be told apart; they are left out.

    Raises:
        SurgeryError: the forward pass raised, or the model has no values (meta device).
    """
    check_workable(model)
    check_inputs(inputs)
    if meta := next((name for name, tensor in model.named_parameters() if tensor.is_meta), None):
        raise SurgeryError(f"{meta} is on the meta device, and attention has no values there: load the weights first")
    recorder, again = Recorder(model), Recorder(model)
    placer, taker = Placer(recorder), _Taker(again)
    try:
        with torch.no_grad():
            observe(model, inputs, recorder, placer)
            observe(model, inputs, again, taker)
    except ForwardFailed as failed:
        where = f" in {failed.path}" if failed.path else ""
        raise SurgeryError(
            f"the forward pass of {type(model).__name__} raised {in_words(failed.error)}{where}; "
            "give inputs that its forward takes, on the model's device"
        ) from failed.error
    found: dict[str, list[Captured]] = {}
    lost: list[str] = []
    for number, call in enumerate(again.calls):
        path = block_path(model, call)
        one = taker.captured(number, placer.found.get(number))
        if one is None:
            lost.append(path)
        else:
            found.setdefault(path, []).append(one)
    for path in dict.fromkeys(lost):
        warnings.warn(
            f"{path or 'the model'}: no projection reads its output head by head, so that it cannot be captured",
            stacklevel=2,
        )
    return {path: tuple(calls) for path, calls in found.items() if path not in lost}


class _Taker(CallMode):
    """Passes calls on to a recorder, and keeps the maps of every attention and what output projections read."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._maps: dict[int, Tensor] = {}
        self._sources: dict[int, Tensor] = {}
        self._whole: dict[int, Captured] = {}

    def captured(self, number: int, placement: Placement | None) -> Captured | None:
        """What was seen of the recorder's attention call of that number, its heads in their places."""
        if number in self._whole:
            return self._whole[number]
        maps, source = self._maps.get(number), self._sources.get(number)
        if placement is None or maps is None or source is None:
            return None
        maps_LTS = maps.reshape(-1, *maps.shape[-2:])
        return Captured(maps=maps_LTS[placement.maps], outputs=placement.arranged(source))

    def see(self, call: FunctionCall) -> object:
        """Make the call, and take from it."""
        result = call.run()
        projection = self._recorder.projection(call.function, call.args, call.kwargs)
        number = self._recorder.call_read_in(projection[0]) if projection else None
        if projection is not None and number is not None:
            self._sources.setdefault(number, projection[0].detach().clone())
        seen = len(self._recorder.calls)
        self._recorder.see(call.function, call.args, call.kwargs, result)
        if len(self._recorder.calls) > seen:
            self._take(call, seen, result)
        return result

    def _take(self, call: FunctionCall, number: int, result: object) -> None:
        if call.function is MULTI_HEAD:
            maps, outputs = multi_head(call)
            self._whole[number] = Captured(maps=maps, outputs=outputs)
        elif isinstance(result, Tensor) and call.function is SDPA:
            if (found := sdpa_maps(call, result)) is not None:
                self._maps[number] = found
        elif (operands := weights_and_values(call, self._recorder)) is not None:
            self._maps[number] = operands[0].detach().clone()
