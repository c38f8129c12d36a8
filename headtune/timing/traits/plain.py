"""The pass by which a model's traits are told."""

from dataclasses import replace

import torch

from headtune.timing.device import resolve
from headtune.timing.protocol import LatencyProtocol


def one_pass(protocol: LatencyProtocol, *, eager: bool = False) -> LatencyProtocol:
    """The protocol of one forward pass at the longest of its sequence lengths, with nothing left open.

    Args:
        protocol: the person's.
        eager: whether the model runs module by module, neither compiled nor captured.

    Raises:
        MeasurementError: a device that is not there.
    """
    forward = replace(protocol.at(protocol.lengths[-1]), mode="forward")
    if eager:
        forward = replace(forward, compile=False, cuda_graphs=False)
    return resolve(forward, torch.get_num_threads())
