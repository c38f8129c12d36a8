"""Signals, sent for real."""

import os
import signal
import threading

import pytest

from headtune.execute.interrupts import deferred_interrupts, immediate_interrupts


def test_a_deferred_interrupt_waits_until_the_block_ends() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred_interrupts() as interrupt:  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        reached = interrupt.asked
    assert reached


def test_sigterm_does_not_wait() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        reached = True
    assert not reached


def test_the_second_request_is_granted_at_once() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        reached = True
    assert not reached


def test_sigterm_is_an_interrupt_inside_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), immediate_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_nothing_changes() -> None:
    seen: list[bool] = []

    def work() -> None:
        with deferred_interrupts() as interrupt, immediate_interrupts():
            seen.append(interrupt.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
