import copy
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError, StorageError
from headtune.timing import Lane
from headtune.timing.turnstile import turnstile

SOON_S = 60.0  # a fresh process imports torch first
TRIAL = """
import sys, torch
from pathlib import Path
from headtune.timing import Lane
torch.set_num_threads(1)
lane, model = Lane(Path(sys.argv[1])), torch.nn.Linear(8, 8)
with lane.shared():
    lane.attach(model)
    while True:
        model(torch.zeros(4, 8)).sum().backward()
        print("pass", flush=True)
"""


class Passes:
    """Counts how often a lane was asked to yield, by its own turnstile."""

    def __init__(self, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        ours = type(turnstile(Path("x")))
        real = ours.give_way

        def counted(held: object, finish: object) -> None:
            self.count += 1
            real(held, finish)  # type: ignore[arg-type]

        monkeypatch.setattr(ours, "give_way", counted)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.inner(x) * scale


def test_a_training_trial_in_another_process_holds_still_and_frees_the_lane_when_killed(tmp_path: Path) -> None:
    lane = Lane(tmp_path)
    trial = subprocess.Popen([sys.executable, "-c", TRIAL, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert trial.stdout is not None
        output = trial.stdout.fileno()
        assert os.read(output, 1) == b"p"  # it trains
        with lane.exclusive(SOON_S) as contended:
            assert not contended
            os.set_blocking(output, False)
            time.sleep(0.1)
            while drained(output):
                pass
            time.sleep(0.3)
            assert not drained(output)  # not one pass
        deadline = time.monotonic() + SOON_S
        while not drained(output):
            assert time.monotonic() < deadline
        os.kill(trial.pid, signal.SIGSTOP)  # in the midst of a pass: it cannot give way
        with lane.exclusive(0.2) as contended:
            assert contended
        os.kill(trial.pid, signal.SIGKILL)
        with lane.exclusive(SOON_S) as contended:
            assert not contended
    finally:
        trial.kill()
        trial.wait()


def drained(output: int) -> bytes:
    try:
        return os.read(output, 65536)
    except BlockingIOError:
        return b""


def test_a_trial_may_measure_itself(tmp_path: Path) -> None:
    lane = Lane(tmp_path)
    with lane.shared(), lane.shared():
        with lane.exclusive(0.0) as contended:
            assert not contended
            lane.yield_to_measurer()
        lane.yield_to_measurer()


def test_equal_lanes_are_one_hold(tmp_path: Path) -> None:
    with Lane(tmp_path).shared(), Lane(tmp_path, "cpu").exclusive(0.0) as contended:
        assert not contended


def test_two_spellings_of_a_folder_are_one_lane(tmp_path: Path) -> None:
    with Lane(tmp_path).shared(), Lane(tmp_path / "x" / "..").exclusive(0.0) as contended:
        assert not contended


def test_by_default_the_folder_is_this_users_among_the_nodes_temporary_files() -> None:
    with Lane().shared():
        folder = Path(tempfile.gettempdir()) / f"headtune-{os.getuid()}"
        assert (folder / "cpu.gate").exists()


def test_yielding_is_cheap_where_no_one_waits(tmp_path: Path) -> None:
    lane, best = Lane(tmp_path), float("inf")
    with lane.shared():
        for _ in range(200):  # the fastest of many short rounds is what it costs, whatever else the machine does
            began = time.perf_counter()
            for _ in range(10):
                lane.yield_to_measurer()
            best = min(best, (time.perf_counter() - began) / 10)
    assert best < 50e-6


def test_each_forward_pass_yields_once_until_the_handle_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane, model = Lane(tmp_path), Outer()
    passes = Passes(lane, monkeypatch)
    with lane.shared():
        handle = lane.attach(model)
        expected = model(torch.ones(2, 4), scale=2.0)
        model(torch.ones(2, 4))
        model.inner(torch.ones(2, 4))  # not a pass of the model
        assert passes.count == 2
        handle.remove()
        assert torch.equal(model(torch.ones(2, 4), scale=2.0), expected)
    assert passes.count == 2


def test_a_copy_yields_too_and_a_pickle_does_where_the_lane_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane, model = Lane(tmp_path), Outer()
    with lane.shared():
        lane.attach(model)
        passes = Passes(lane, monkeypatch)
        copy.deepcopy(model)(torch.ones(1, 4))
        pickle.loads(pickle.dumps(model))(torch.ones(1, 4))
        saved = io.BytesIO()
        torch.save(model, saved)
        saved.seek(0)
        torch.load(saved, weights_only=False)(torch.ones(1, 4))
        assert passes.count == 3


def test_a_hook_of_a_lane_that_was_never_entered_does_and_opens_nothing(tmp_path: Path) -> None:
    model = Outer()
    # A GPU's lane, unpickled where there may be no GPU.
    for lane in (Lane(tmp_path / "elsewhere"), Lane(tmp_path / "elsewhere", "cuda:7")):
        lane.attach(model)
    model(torch.ones(1, 4))
    assert not (tmp_path / "elsewhere").exists()


def test_weights_are_saved_without_the_hook(tmp_path: Path) -> None:
    model = Outer()
    names = list(model.state_dict())
    Lane(tmp_path).attach(model)
    assert list(model.state_dict()) == names


@pytest.mark.parametrize("order", ["attach the model, then compile", "compile in place", "attach the compiled model"])
def test_a_compiled_model_yields_and_stays_one_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    import torch._dynamo.testing

    torch._dynamo.reset()
    lane, model, graphs = Lane(tmp_path), Outer(), torch._dynamo.testing.CompileCounter()
    with lane.shared():
        if order == "attach the compiled model":
            compiled = torch.compile(model, backend=graphs, fullgraph=True)
            lane.attach(compiled)
        else:
            lane.attach(model)
            if order == "compile in place":
                model.compile(backend=graphs)
            compiled = model if order == "compile in place" else torch.compile(model, backend=graphs)
        passes = Passes(lane, monkeypatch)
        for _ in range(4):
            compiled(torch.ones(2, 4)).sum().backward()
    assert passes.count == 4
    assert graphs.frame_count == 1


def test_the_encoder_layers_fast_path_stays_under_an_attached_model(tmp_path: Path) -> None:
    # A hook on an encoder layer itself would turn its fused path off, and with it what is measured.
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    Lane(tmp_path).attach(encoder)
    with torch.inference_mode(), torch.profiler.profile() as recorded:
        encoder(torch.ones(2, 3, 8))
    assert "aten::_transformer_encoder_layer_fwd" in {event.name for event in recorded.events()}


def test_lanes_are_values(tmp_path: Path) -> None:
    lane = Lane(tmp_path, "cpu")
    assert pickle.loads(pickle.dumps(lane)) == copy.deepcopy(lane) == lane
    assert hash(lane) == hash(Lane(tmp_path, "cpu"))
    assert Lane(None, "cpu") == Lane()


def test_a_lane_of_no_device(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"^device 'tpu' cannot be timed; "):
        Lane(tmp_path, "tpu").exclusive()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"^the lane's lock file .*/file/cpu\.floor cannot be opened "):  # noqa: SIM117
        with Lane(tmp_path / "file").shared():
            pass


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_queue_is_emptied_before_the_lane_is_given(tmp_path: Path) -> None:
    lane = Lane(tmp_path, "cuda")
    with lane.shared():
        assert len(list(tmp_path.glob("cuda-*.gate"))) == 1  # named by the GPU's own identity
        torch.cuda._sleep(100_000_000)
        lane._finish()
        assert torch.cuda.current_stream().query()
