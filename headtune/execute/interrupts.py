"""Ctrl-C and SIGTERM, as KeyboardInterrupt at a moment when it does no harm."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the person asked to end.

    Ctrl-C is granted between two steps; SIGTERM, and a second Ctrl-C, at once: a service manager sends SIGTERM to Ray's
    processes too, and then there is nothing left to wait for.
    """

    def __init__(self) -> None:
        self.asked = False

    def ask(self, signum: int, frame: FrameType | None) -> None:
        """Remember the request, or raise at once."""
        impatient = self.asked or signum == signal.SIGTERM
        self.asked = True
        if impatient:
            raise KeyboardInterrupt


@contextmanager
def deferred_interrupts() -> Iterator[Interrupt]:
    """While inside, Ctrl-C sets :attr:`Interrupt.asked`; leaving turns the request into KeyboardInterrupt.

    Outside the main thread signals cannot be caught, so nothing changes there.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.signal(number, interrupt.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupt.asked:
        raise KeyboardInterrupt


@contextmanager
def immediate_interrupts() -> Iterator[None]:
    """While inside, SIGTERM raises KeyboardInterrupt at once, as SIGINT does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
