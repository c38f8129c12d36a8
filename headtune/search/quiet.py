"""Optuna without its side effects: no log lines, no warnings, one thread, global random generators untouched."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

from headtune.trial.seeding import kept_rng_state

_LOGGER = logging.getLogger("optuna")


@contextmanager
def silent() -> Iterator[None]:
    """While inside, Optuna logs errors only and warns of nothing."""
    before = _LOGGER.level
    _LOGGER.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _LOGGER.setLevel(before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """While inside, one thread computes; afterwards threads and global random generators are as they were.

    A Gaussian process on as many threads as there are cores would slow the trials down and would not repeat itself.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with silent(), kept_rng_state(), _pools().limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)


@cache
def _pools() -> ThreadpoolController:
    """The threads of the libraries behind NumPy and SciPy, which take milliseconds to find."""
    return ThreadpoolController()
