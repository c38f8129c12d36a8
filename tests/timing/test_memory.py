import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile

from headtune.errors import InputError, MeasurementError
from headtune.timing import LatencyProtocol, peak_memory_mb

CPU = LatencyProtocol(device="cpu", threads=1)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def chain(width: int, depth: int) -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])


def weights_bytes(width: int, depth: int) -> int:
    return 4 * depth * (width * width + width)


class Scores(nn.Module):
    """Attention by hand, which holds its scores twice: before and after the softmax."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x_btd: Tensor) -> Tensor:
        x_bhtd = x_btd.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores_bhtt = x_bhtd @ x_bhtd.transpose(-1, -2)
        return scores_bhtt.softmax(-1).sum()


@pytest.mark.parametrize("depth", [2, 3, 7])
@pytest.mark.parametrize(("batch_size", "width"), [(32, 256), (8, 64)])
def test_closed_form_of_a_chain_of_linears(batch_size: int, width: int, depth: int) -> None:
    # A layer's input and output are alive together, so two activations at any depth from two on.
    activation = 4 * batch_size * width
    expected = weights_bytes(width, depth) + activation + 2 * activation
    assert peak_memory_mb(chain(width, depth), (torch.zeros(batch_size, width),), CPU) == expected / 1e6


def test_one_linear_holds_one_activation() -> None:
    activation = 4 * 32 * 256
    expected = weights_bytes(256, 1) + 2 * activation
    assert peak_memory_mb(chain(256, 1), (torch.zeros(32, 256),), CPU) == expected / 1e6


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_scores_by_hand_grow_with_the_heads(heads: int) -> None:
    batch_size, positions, width = 4, 48, 32
    scores = 4 * batch_size * heads * positions * positions
    found = peak_memory_mb(Scores(heads), (torch.rand(batch_size, positions, width),), CPU) * 1e6
    inputs = 4 * batch_size * positions * width
    # Beside the scores the product may copy its strided operands: two inputs at most.
    assert 0 <= found - inputs - 2 * scores <= 2 * inputs


def test_the_scratch_of_a_fused_kernel_is_seen() -> None:
    # The fast path of the encoder layer is a single operator that makes its scores inside.
    batch_size, positions, heads = 32, 64, 8
    layer = nn.TransformerEncoderLayer(64, heads, 128, batch_first=True)
    scores = 4 * batch_size * heads * positions * positions
    assert peak_memory_mb(layer, (torch.rand(batch_size, positions, 64),), CPU) * 1e6 > scores


def test_the_same_pass_gives_the_same_number() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 8, 128, batch_first=True), 2)
    x = torch.rand(8, 32, 64)
    assert len({peak_memory_mb(model, (x,), CPU) for _ in range(5)}) == 1


def test_a_factory_is_asked_for_the_protocols_sizes() -> None:
    small, large = (
        peak_memory_mb(nn.ReLU(), lambda b, t: (torch.zeros(b, t or 1),), LatencyProtocol(batch_size=b, seq_len=100))
        for b in (10, 30)
    )
    assert (small, large) == (2 * 4 * 10 * 100 / 1e6, 2 * 4 * 30 * 100 / 1e6)


def test_a_shared_storage_counts_once_and_buffers_count() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("table", torch.zeros(1000))
            self.register_buffer("part", self.get_buffer("table")[:10])

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x)

    x = torch.zeros(2, 16)
    assert peak_memory_mb(Tied(), {"x": x}, CPU) == (4 * 16 * 16 + 4000 + 2 * 4 * 2 * 16) / 1e6


def test_a_lower_dtype_takes_half() -> None:
    model, x = chain(64, 3), torch.zeros(8, 64)
    whole = peak_memory_mb(model, (x,), CPU)
    assert peak_memory_mb(model, (x,), LatencyProtocol(device="cpu", threads=1, dtype="bfloat16")) <= whole * 0.75
    assert model[0].weight.dtype == torch.float32


def test_other_tensors_of_the_process_do_not_count() -> None:
    model, x = chain(16, 2), torch.zeros(4, 16)
    before = peak_memory_mb(model, (x,), CPU)
    kept = torch.zeros(10_000_000)
    assert peak_memory_mb(model, (x,), CPU) == before
    assert kept.numel() == 10_000_000


def test_what_a_first_pass_keeps_is_not_what_a_pass_takes() -> None:
    class Caching(nn.Module):
        cache: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.cache is None:
                self.cache = torch.zeros(1_000_000)
            return x.relu()

    assert peak_memory_mb(Caching(), (torch.zeros(100),), CPU) == 800 / 1e6


def test_modes_and_generators_stay() -> None:
    torch.manual_seed(0)
    model, state = nn.Dropout().train(), torch.get_rng_state()
    peak_memory_mb(model, (torch.zeros(3),), CPU)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


def test_errors_are_those_of_measuring() -> None:
    with pytest.raises(MeasurementError, match=r"^the model failed in its forward pass: RuntimeError: "):
        peak_memory_mb(nn.Linear(3, 3), (torch.zeros(2, 4),), CPU)
    with pytest.raises(InputError, match=r"wrap it as \(tensor,\)$"):
        peak_memory_mb(nn.Linear(3, 3), torch.zeros(2, 3), CPU)  # type: ignore[arg-type]


def test_beside_a_running_profiler_it_is_refused() -> None:
    with profile(), pytest.raises(MeasurementError) as caught:
        peak_memory_mb(nn.Linear(3, 3), (torch.zeros(2, 3),), CPU)
    assert str(caught.value) == "peak memory on the CPU needs torch's profiler, and one is running; end it first"


def test_it_writes_nothing() -> None:
    code = (
        "import torch; from headtune.timing import *;"
        "peak_memory_mb(torch.nn.Linear(3, 3), (torch.zeros(2, 3),), LatencyProtocol(device='cpu', threads=1))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


@gpu
@pytest.mark.gpu
def test_on_a_gpu_the_same_closed_form_in_blocks_of_512_bytes() -> None:
    activation = 4 * 32 * 256
    expected = (weights_bytes(256, 4) + 3 * activation) / 1e6
    found = peak_memory_mb(chain(256, 4), (torch.zeros(32, 256),), LatencyProtocol(device="cuda", threads=1))
    assert found == pytest.approx(expected, abs=0.01)


def test_arguments_of_another_kind_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        peak_memory_mb(None, (), 3)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "peak_memory_mb: model: must be a torch.nn.Module (got None)",
        "peak_memory_mb: protocol: must be a LatencyProtocol (got 3)",
    )
