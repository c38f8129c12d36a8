import logging
import random
import warnings

import numpy as np
import optuna
import pytest
import torch
from threadpoolctl import threadpool_info

from headtune.search.quiet import silent, undisturbed


def test_silent_hides_optunas_lines_and_warnings_and_puts_everything_back(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("optuna")
    before = logger.level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with silent():
            optuna.create_study()
            warnings.warn("hidden", stacklevel=1)
        warnings.warn("seen", stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["seen"]
    assert logger.level == before
    assert caplog.records == []


def fail_while_drawing() -> None:
    assert torch.get_num_threads() == 1
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
    random.random(), np.random.rand(), torch.rand(())
    raise ZeroDivisionError


def test_undisturbed_gives_back_threads_and_generators_even_after_an_error() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        pools = threadpool_info()
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        expected = random.random(), float(np.random.rand()), float(torch.rand(()))
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        with pytest.raises(ZeroDivisionError), undisturbed():
            fail_while_drawing()
        assert torch.get_num_threads() == 2
        assert threadpool_info() == pools
        assert (random.random(), float(np.random.rand()), float(torch.rand(()))) == expected
    finally:
        torch.set_num_threads(threads)
