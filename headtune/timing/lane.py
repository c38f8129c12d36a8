"""The lane of a device: while one process measures, the trials of this node hold still."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from headtune.timing.device import concrete_device
from headtune.timing.turnstile import Turnstile, turnstile

PATIENCE_S = 30.0
"""How long a measurer waits for one other before it measures beside it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A node's turnstile for one device, shared by all processes that name the same folder.

    A trial holds it with :meth:`shared` while it works and gives way at each forward pass (:meth:`attach`); a measurer
    takes it alone with :meth:`exclusive`. A process that dies frees it. The lane itself is a plain value: it may be
    copied, pickled and sent to another process; only what a process entered does it hold.

    Attributes:
        directory: folder on the node's own disk; ``None`` for one per user among its temporary files.
        device: as a protocol names it; one GPU is one lane, whatever index a process knows it by.
    """

    directory: Path | None = None
    device: str = "cpu"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lane with other trials; waits while a measurer is at work. Blocks may nest.

        Raises:
            StorageError: the folder cannot be written.
        """
        ours = self._turnstile()
        ours.enter()
        try:
            yield
        finally:
            ours.leave()

    def exclusive(self, patience_s: float = PATIENCE_S) -> AbstractContextManager[bool]:
        """Hold the lane alone; inside :meth:`shared` the process's own share rests meanwhile.

        Args:
            patience_s: seconds to wait for each measurer before us, and then for the trials.

        Returns:
            A context whose value says whether the wait was in vain, so that others work beside what is measured.

        Raises:
            StorageError: the folder cannot be written.
        """
        return self._turnstile().alone(patience_s)

    def yield_to_measurer(self) -> None:
        """Between two pieces of a trial's work: let a waiting measurer go first. Does nothing outside :meth:`shared`.

        A few microseconds where none waits; else the device's queue is emptied, and the lane is ours again on return.
        """
        ours = _used.get(self)
        if ours is not None:
            ours.give_way(self._finish)

    def attach(self, model: nn.Module) -> RemovableHandle:
        """Yield before each forward pass of *model*, until the returned handle's ``remove()``.

        The hook is as plain a value as the lane: a copy of the model yields too, an unpickled one yields where its
        process holds the lane. ``torch.compile`` breaks its graph before the model, not in it; with ``fullgraph=True``
        attach to the compiled module.
        """
        return model.register_forward_pre_hook(_Yield(self))

    def _turnstile(self) -> Turnstile:
        if self not in _used:
            _used[self] = turnstile(_lock_path(self.directory, self.device))
        return _used[self]

    def _finish(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize(self.device if self.device.startswith("cuda") else None)


@dataclass(frozen=True, slots=True)
class _Yield:
    lane: Lane

    def __call__(self, module: nn.Module, args: tuple[object, ...]) -> None:
        self.lane.yield_to_measurer()


_used: dict[Lane, Turnstile] = {}
"""The lanes that this process has entered: a hook that came with an unpickled model must do nothing elsewhere."""


def _lock_path(directory: Path | None, device: str) -> Path:
    folder = directory or Path(tempfile.gettempdir()) / f"headtune-{os.getuid()}"
    concrete = concrete_device(device)
    name = "cpu" if concrete == "cpu" else f"cuda-{torch.cuda.get_device_properties(concrete).uuid}"
    return folder.resolve() / name
