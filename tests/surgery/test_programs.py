"""Exported programs run, agree with the model, and take other sizes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import MissingExtraError, SurgeryError
from headtune.surgery.programs import check_format, write_program


def encoder() -> nn.Module:
    """Two layers of PyTorch's own, the first with two of four heads left."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    whole = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return headtune.prune(whole, {"layers.0.self_attn": [1, 2]}, (torch.randn(3, 5, 16),))


@torch.no_grad()
def test_a_pruned_model_exported_loads_and_takes_other_sizes(tmp_path: Path) -> None:
    model, x = encoder().train(), torch.randn(3, 5, 16)
    file = write_program(model, (x,), tmp_path / "new", "torch")
    assert file == tmp_path / "new" / "model.pt2"
    assert [one.name for one in file.parent.iterdir()] == ["model.pt2"]
    assert model.training
    program = torch.export.load(file).module()
    other = torch.randn(2, 7, 16)
    # The exported kernels may add in another order: float32.
    torch.testing.assert_close(program(other), model.eval()(other), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_named_inputs_and_nested_outputs(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=20, **sizes)).eval()
    inputs = {"attention_mask": torch.ones(3, 5, dtype=torch.long), "input_ids": torch.arange(15).reshape(3, 5)}
    model = headtune.prune(model, {"encoder.layer.0.attention.self": [0, 3]}, inputs)
    program = torch.export.load(write_program(model, inputs, tmp_path, "torch")).module()
    other = {name: tensor[:2] for name, tensor in inputs.items()}
    found, expected = program(**other).last_hidden_state, model(**other).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


class Fickle(nn.Module):
    """Computes one thing when it is exported and another when it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y if torch.compiler.is_exporting() else 2 * y


def test_a_program_that_computes_something_else_is_refused_and_none_is_left(tmp_path: Path) -> None:
    with pytest.raises(
        SurgeryError, match=r"^Fickle was exported \(torch\), but of the program what it returns is off by"
    ):
        write_program(Fickle(), (torch.randn(3, 4),), tmp_path, "torch")
    assert list(tmp_path.iterdir()) == []


class Deciding(nn.Module):
    """Looks at a value to decide what to do, which no program can follow."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum().item() > 0 else -x


def test_a_model_that_cannot_be_exported_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SurgeryError) as caught:
        write_program(Deciding(), (torch.ones(3, 4),), tmp_path, "torch")
    assert str(caught.value).startswith("Deciding cannot be exported (torch): ")
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_program_is_replaced_and_kept_where_the_new_one_fails(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_text("earlier")
    with pytest.raises(SurgeryError):
        write_program(Deciding(), (torch.ones(3, 4),), tmp_path, "torch")
    assert (tmp_path / "model.pt2").read_text() == "earlier"
    write_program(nn.Linear(4, 4), (torch.ones(3, 4),), tmp_path, "torch")
    torch.export.load(tmp_path / "model.pt2")


def test_onnx_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtune.surgery.programs.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        check_format("onnx")
    assert str(caught.value) == "ONNX needs onnx, onnxscript, onnxruntime: pip install 'headtune[onnx]'"
    check_format("torch")


@pytest.mark.slow
@torch.no_grad()
def test_onnx_runs_and_agrees(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, x = encoder().eval(), torch.randn(3, 5, 16)
    session = onnxruntime.InferenceSession(str(write_program(model, (x,), tmp_path, "onnx")))
    other = torch.randn(2, 7, 16)
    (found,) = session.run(None, {session.get_inputs()[0].name: other.numpy()})
    # Another library's kernels, float32, values of about 1.
    torch.testing.assert_close(torch.from_numpy(found), model(other), rtol=1e-4, atol=1e-4)


def test_a_model_that_uses_up_its_inputs_and_keeps_what_it_saw_is_exported_and_left_as_it_was(tmp_path: Path) -> None:
    class Using(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.seen = nn.Linear(4, 4), []

        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            x = batch.pop("x")
            self.seen.append(x.shape)
            return self.inner(x)

    model, batch = Using(), {"x": torch.randn(3, 4)}
    file = write_program(model, (batch,), tmp_path, "torch")
    assert list(batch) == ["x"]
    assert model.seen == []
    torch.testing.assert_close(torch.export.load(file).module()(batch), model.inner(batch["x"]))
