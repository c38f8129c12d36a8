import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headtune
from headtune.errors import StopTrial, TaskError
from headtune.trial.importing import import_file
from headtune.trial.messages import Measurement

EXAMPLE = Path(__file__).parents[2] / "examples" / "text_lm.py"


@pytest.fixture(scope="module")
def text_lm() -> ModuleType:
    return import_file(EXAMPLE, "text_lm")


STEPS = 5


def built(text_lm: ModuleType) -> nn.Module:
    model: nn.Module = text_lm.ByteLM(text_lm.WIDTH, text_lm.HEADS, text_lm.LAYERS)
    return model


class Channel:
    """Hears reports, and stops at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self._stop_at = stop_at

    def measured(self, measurement: Measurement) -> None:
        raise AssertionError("a training measures nothing")

    def report(self, step: int, metrics: dict[str, float]) -> bool:
        return step == self._stop_at


def test_the_parts_follow_each_other_and_are_the_text(text_lm: ModuleType) -> None:
    written = bytes(i * 7 % 251 for i in range(4000))
    text = text_lm.Text.of(written)
    assert bytes(torch.cat([text.train, text.val, text.test]).tolist()) == written
    assert [len(part) for part in (text.train, text.val, text.test)] == [3600, 200, 200]


def test_the_text_that_ships_with_python_is_there(text_lm: ModuleType) -> None:
    text = text_lm.read_text(None)
    assert len(text) > 300_000
    assert b"assignment" in text


def test_any_file_will_do(text_lm: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"\xff\x00any bytes")
    assert text_lm.read_text(str(tmp_path / "text.txt")) == b"\xff\x00any bytes"


def test_a_file_that_is_not_there(text_lm: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        text_lm.task(path=str(tmp_path / "no.txt"))
    assert str(caught.value) == (
        f"text_lm: there is no file {tmp_path / 'no.txt'}; give a text by --set task_args.path=FILE"
    )


def test_a_python_without_its_reference(text_lm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(TaskError) as caught:
        text_lm.read_text(None)
    assert str(caught.value) == (
        "text_lm: this Python was installed without pydoc_data; give a text by --set task_args.path=FILE"
    )


def test_a_text_that_is_too_short(text_lm: ModuleType) -> None:
    with pytest.raises(TaskError) as caught:
        text_lm.Text.of(bytes(1000))
    assert str(caught.value) == "text_lm needs at least 1300 bytes of text, got 1000"
    text_lm.Text.of(bytes(1300))


def test_the_future_does_not_reach_the_past(text_lm: ModuleType) -> None:
    torch.manual_seed(0)
    model = built(text_lm)
    a = torch.randint(256, (2, 20))
    b = a.clone()
    b[:, 12:] = (b[:, 12:] + 1) % 256
    with torch.no_grad():
        x, y = model(a), model(b)
    assert torch.equal(x[:, :12], y[:, :12])
    assert (x[:, 12:] != y[:, 12:]).any(-1).all()


def test_the_past_reaches_the_future(text_lm: ModuleType) -> None:
    torch.manual_seed(0)
    model = built(text_lm)
    a = torch.randint(256, (1, 20))
    b = a.clone()
    b[0, 3] = (b[0, 3] + 1) % 256
    with torch.no_grad():
        changed = (model(a) != model(b)).any(-1)[0]
    assert changed.tolist() == [False] * 3 + [True] * 17


def test_attention_is_the_textbooks(text_lm: ModuleType) -> None:
    torch.manual_seed(0)
    attention = text_lm.CausalSelfAttention(12, 3)
    x = torch.randn(2, 5, 12)
    q, k, v = attention.qkv(x).split(12, dim=-1)
    heads = []
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(4)
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ v[..., part])
    # Float32 sums of 5 terms in another order.
    torch.testing.assert_close(attention(x), attention.proj(torch.cat(heads, -1)), rtol=1e-5, atol=1e-6)


def test_at_first_every_byte_costs_eight_bits(text_lm: ModuleType) -> None:
    torch.manual_seed(0)
    data = torch.randint(256, (2000,))
    assert text_lm.bits_per_byte(data, built(text_lm)) == pytest.approx(8.0, abs=0.05)


class Uniform(nn.Module):
    """Thinks that 16 bytes are equally likely, and others impossible."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(()))

    def forward(self, text: Tensor) -> Tensor:
        """(B, T) → (B, T, 256)."""
        logits = torch.full((256,), -100.0)
        logits[:16] = 0.0
        return logits.expand(*text.shape, 256) + self.anchor


def test_bits_per_byte_of_a_known_model(text_lm: ModuleType) -> None:
    data = torch.randint(16, (1000,))
    assert text_lm.bits_per_byte(data, Uniform()) == pytest.approx(4.0, abs=1e-5)


def test_cross_entropy_shifts_by_one(text_lm: ModuleType) -> None:
    class Echo(nn.Module):
        def forward(self, text: Tensor) -> Tensor:
            return 50.0 * F.one_hot(text + 1, 256).float()

    windows = torch.arange(10).repeat(3, 1)
    assert text_lm.cross_entropy(Echo(), windows).item() == pytest.approx(0.0, abs=1e-6)


def test_it_learns_a_repeating_text(text_lm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lm, "STEPS", 40)
    torch.manual_seed(0)
    text = text_lm.Text.of(b"abcdefgh" * 400)
    model = built(text_lm)
    run = headtune.Run(epochs=1, device="cpu")
    text_lm.train(text, text_lm.STEPS, text_lm.LR, model, run)
    assert run.last["val_bits_per_byte"] < 1.0  # without any order it would be 3


def test_a_resumed_training_ends_with_the_very_same_weights(text_lm: ModuleType, tmp_path: Path) -> None:
    text = text_lm.Text.of(b"to be or not to be, " * 100)

    def trained(run: headtune.Run, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        model = built(text_lm)
        text_lm.train(text, STEPS, text_lm.LR, model, run)
        return model

    whole = trained(headtune.Run(epochs=3, channel=Channel(), device="cpu"))
    with pytest.raises(StopTrial):
        trained(headtune.Run(epochs=3, channel=Channel(stop_at=3), folder=tmp_path, device="cpu"))
    resumed = trained(headtune.Run(epochs=3, channel=Channel(), folder=tmp_path, device="cpu"), seed=99)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_the_task_keeps_its_contract(text_lm: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"to be or not to be, " * 100)
    task = text_lm.task(path=str(tmp_path / "text.txt"), steps=STEPS)
    model = task.model()
    assert model(*task.inputs(2, 16)).shape == (2, 16, 256)
    assert model(*task.inputs(2, None)).shape == (2, text_lm.CONTEXT, 256)
    task.train(model, headtune.Run(epochs=1, device="cpu"))
    assert set(task.evaluate(model)) == {"val_bits_per_byte"}
    assert set(task.test(model)) == {"test_bits_per_byte"}
    batch, *_ = task.batches()
    assert task.loss(model, batch).ndim == 0


@pytest.mark.slow
def test_it_runs_alone() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], check=True, capture_output=True, text=True, timeout=600)
    assert float(done.stdout.removeprefix("test bits per byte: ")) < 3.2  # its bytes alone, in no order, cost 4.8
