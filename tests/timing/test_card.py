import sys
from types import ModuleType

import pytest
import torch

from headtune.timing.card import card_state

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_a_cpu_has_no_card() -> None:
    assert card_state("cpu") == {}


def test_without_the_extra_the_way_to_it_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert card_state("cuda:0") == {
        "unknown": "clocks and other processes of the card: pip install 'headtune[gpu]' to note them"
    }


def test_a_library_that_fails_is_noted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def init() -> None:
        raise NVMLError("Driver Not Loaded")

    library.NVMLError, library.nvmlInit = NVMLError, init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert card_state("cuda:0") == {"unknown": "clocks and other processes of the card: Driver Not Loaded"}


@gpu
@pytest.mark.gpu
def test_a_card_tells_its_clock() -> None:
    pytest.importorskip("pynvml")
    found = card_state("cuda:0")
    assert float(found["most_sm_clock_mhz"]) >= float(found["sm_clock_mhz"]) > 0
