"""The wiring of every attention block of a model."""

import torch
from torch import nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.located import block_path
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe
from headtune.surgery.wiring.tracing import Tracer
from headtune.surgery.wiring.wiring import Wiring


def wirings(model: nn.Module, inputs: Inputs) -> dict[str, Wiring]:
    """For each attention block whose heads could be followed, its wiring, from one forward pass with gradients.

    Args:
        model: left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.

    Raises:
        ForwardFailed: the forward pass raised.
    """
    recorder = Recorder(model)
    tracer = Tracer(recorder)
    with torch.inference_mode(False), torch.enable_grad():
        observe(model, inputs, recorder, tracer)
    found: dict[str, Wiring] = {}
    for number, call in enumerate(recorder.calls):
        wiring = tracer.wirings.get(number)
        if wiring is not None and wiring.num_heads == call.num_heads:
            found.setdefault(block_path(model, call), wiring)
    return found
