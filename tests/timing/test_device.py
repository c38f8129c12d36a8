import platform
from dataclasses import replace

import pytest
import torch

from headtune.errors import InputError, MeasurementError
from headtune.timing import LatencyProtocol, resolve
from headtune.timing.device import concrete_device, device_name, versions

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_open_threads_become_the_cpus() -> None:
    open_protocol = LatencyProtocol(device="cpu", batch_size=5)
    assert resolve(open_protocol, 3) == replace(open_protocol, threads=3)


def test_given_threads_stay() -> None:
    assert resolve(LatencyProtocol(device="cpu", threads=2), 7).threads == 2


def test_resolving_twice_changes_nothing() -> None:
    once = resolve(LatencyProtocol(), 3)
    assert resolve(once, 9) == once


def test_auto_is_the_first_gpu_or_the_cpu() -> None:
    assert resolve(LatencyProtocol(device="auto"), 1).device == ("cuda:0" if torch.cuda.is_available() else "cpu")


def test_no_cpus() -> None:
    with pytest.raises(InputError, match=r"^cpus is 0; a measurement needs 1 or more$"):
        resolve(LatencyProtocol(), 0)


@pytest.mark.parametrize("name", ["mps:0", "xpu:", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "", "gpu", "Cuda"])
def test_a_device_that_cannot_be_timed(name: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        concrete_device(name)
    assert (
        str(caught.value)
        == f"device {name!r} cannot be timed; use auto, cpu, cuda, cuda:<index>, mps, xpu or xpu:<index>"
    )


@no_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    why = (
        f"torch {torch.__version__} is built without CUDA"
        if torch.version.cuda is None
        else f"torch {torch.__version__} sees no GPU with CUDA_VISIBLE_DEVICES='3'"
    )
    with pytest.raises(MeasurementError) as caught:
        resolve(LatencyProtocol(device=name), 1)
    assert str(caught.value) == f"{name} asked, no CUDA device: {why}; set device to auto or cpu"


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize(("name", "called"), [("mps", "MPS"), ("xpu:1", "XPU")])
def test_another_accelerator_that_is_not_there(name: str, called: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        concrete_device(name)
    assert str(caught.value) == (
        f"{name} asked, no {called} device: torch {torch.__version__} sees none; set device to auto or cpu"
    )


@gpu
@pytest.mark.gpu
def test_a_gpu_index_that_is_not_there() -> None:
    last = torch.cuda.device_count() - 1
    with pytest.raises(MeasurementError) as caught:
        concrete_device(f"cuda:{last + 1}")
    assert str(caught.value) == f"cuda:{last + 1} asked, but the last CUDA device is cuda:{last}; name one up to it"


@gpu
@pytest.mark.gpu
def test_cuda_without_an_index_is_the_current_device() -> None:
    assert concrete_device("cuda") == f"cuda:{torch.cuda.current_device()}"
    assert device_name("cuda:0") == torch.cuda.get_device_name(0)


def test_the_cpu_says_its_name() -> None:
    assert device_name("cpu") == versions()["cpu"] != ""


def test_versions_are_those_that_run() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["platform"] == platform.platform()
    assert ("cuda" in found) == (torch.version.cuda is not None)
