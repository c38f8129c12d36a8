"""The loss that a training step is timed with."""

from dataclasses import replace
from typing import Any

import torch

from headtune.errors import TaskError
from headtune.timing import LatencyProtocol
from headtune.timing.inputs import leaves
from headtune.timing.train_step import Loss
from headtune.trial.calling import calling
from headtune.trial.fitting import to_device
from headtune.trial.task import Task


def timed_loss(task: Task, protocol: LatencyProtocol) -> tuple[Loss | None, LatencyProtocol]:
    """The task's loss on its first batch, and the protocol with that batch's size.

    There is none, so that the mean square of the outputs is trained on, where the mode is not ``train_step``, where the
    task has no ``loss`` and ``batches``, and where the protocol names a sequence length, which its batches do not
    follow.

    Raises:
        TaskError: ``batches`` or ``loss`` raised, or there is no batch.
    """
    loss, batches = task.loss, task.batches
    if protocol.mode != "train_step" or loss is None or batches is None or protocol.seq_len is not None:
        return None, protocol
    first: Any = calling("batches", lambda: next(iter(batches()), None))
    if first is None:
        raise TaskError("task.batches returned no batch, and mode: train_step times a step on the first")
    batch: Any = to_device(first, torch.device(protocol.device))
    sizes = [tensor.shape[0] for tensor in leaves(batch) if tensor.dim()]
    sized = replace(protocol, batch_size=sizes[0]) if sizes else protocol
    return lambda model: calling("loss", lambda: loss(model, batch)), sized
