"""A gate on a head is the factor on its output, by every path that PyTorch has."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headtune.errors import SurgeryError
from headtune.surgery import gated
from headtune.surgery.pruning import prune
from headtune.surgery.wiring import Wiring, wirings

NAMES = [
    "nano fused sdpa",
    "annotated",
    "lucid",
    "merged",
    "einsum",
    "vision",
    "grouped repeat",
    "grouped sdpa",
    "child",
]

SIZED_BY_INPUT = ("nano fused sdpa", "vision")
"""Models whose forward has no other width than its input's: these are not pruned."""


def first_output(model: nn.Module, inputs: Any) -> Tensor:
    output = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    return output if isinstance(output, Tensor) else output[0]


def zoo_model(zoo: SimpleNamespace, name: str) -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Wiring]]:
    model, inputs = zoo.build(name, 4, 2 if "grouped" in name else 4).double().eval(), zoo.inputs(name)
    inputs = tuple(tensor.double() for tensor in inputs)
    return model, inputs, wirings(model, inputs)


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_closed_gate_is_a_pruned_head_and_an_open_one_is_none(zoo: SimpleNamespace, name: str) -> None:
    model, inputs, found = zoo_model(zoo, name)
    plain = first_output(model, inputs)
    with gated(model, found, {path: torch.ones(4) for path in found}):
        assert torch.equal(first_output(model, inputs), plain)
    gates = {path: torch.tensor([0.0, 0.0, 1.0, 1.0]) for path in found}
    with gated(model, found, gates):
        closed = first_output(model, inputs)
    assert torch.equal(first_output(model, inputs), plain)
    assert not torch.allclose(closed, plain)
    if name not in SIZED_BY_INPUT:
        small = prune(model, {path: [2, 3] for path in found}, inputs)
        # Float64 sums over other numbers of terms: a few units of rounding.
        torch.testing.assert_close(first_output(small, inputs), closed, rtol=0, atol=1e-12)
    for wiring in found.values():
        for weight, columns in wiring.read_from([0, 1]).items():
            model.get_parameter(weight)[:, sorted(columns)] = 0
    assert torch.equal(first_output(model, inputs), closed)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "grouped repeat"])  # that one has a float32 softmax
def test_the_gradient_of_a_gate_is_its_finite_difference(zoo: SimpleNamespace, name: str) -> None:
    model, inputs, found = zoo_model(zoo, name)
    path = next(iter(found))
    gate = torch.rand(4, dtype=torch.float64, requires_grad=True)
    factors = torch.randn_like(first_output(model, inputs))

    def loss(gate: Tensor) -> Tensor:
        with gated(model, found, {path: gate}):
            return (first_output(model, inputs) * factors).sum()

    assert torch.autograd.gradcheck(loss, gate, eps=1e-6, atol=1e-6)


def zeroed(weight: nn.Parameter, columns: slice) -> None:
    with torch.no_grad():
        weight[:, columns] = 0


@pytest.mark.parametrize("grad", [False, True], ids=["fused path", "ordinary path"])
def test_pytorchs_own_encoder_is_gated_on_every_path(grad: bool) -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 7, 24)
    with torch.set_grad_enabled(grad):
        plain = model(x)
        with gated(model, {}, {"layers.1.self_attn": torch.tensor([1.0, 0.0, 1.0, 1.0])}):
            closed = model(x)
        assert torch.equal(model(x), plain)
        zeroed(model.layers[1].self_attn.out_proj.weight, slice(6, 12))
        assert torch.equal(closed, model(x))
        assert not torch.equal(closed, plain)


def test_headed_attention_is_gated() -> None:
    model, x = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True).eval(), torch.randn(2, 7, 24)
    model = prune(model, {"self_attn": [0, 1, 3]}, (x,))
    found = wirings(model, (x,))
    with gated(model, found, {"self_attn": torch.tensor([1.0, 0.0, 1.0])}):
        closed = model(x)
    zeroed(model.get_parameter("self_attn.out_proj.weight"), slice(6, 12))
    assert torch.equal(closed, model(x))


@pytest.mark.parametrize("name", ["BertModel", "GPT2Model", "AlbertModel", "GPTNeoXModel"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_models_of_transformers_are_gated(name: str, attention: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    config = getattr(transformers, name.replace("Model", "Config"))(
        vocab_size=20, bos_token_id=0, eos_token_id=0, attn_implementation=attention, **sizes
    )
    model = getattr(transformers, name)(config).double().eval()
    inputs = {"input_ids": torch.arange(14).reshape(2, 7)}
    found = wirings(model, inputs)
    plain = first_output(model, inputs)
    with gated(model, found, {path: torch.tensor([0.0, 1.0, 1.0, 0.0]) for path in found}):
        closed = first_output(model, inputs)
    small = prune(model, {path: [1, 2] for path in found}, inputs)
    # A float64 model; rotary positions and masks are float32 in both alike.
    torch.testing.assert_close(first_output(small, inputs), closed, rtol=0, atol=1e-10)
    assert not torch.allclose(plain, closed)
    assert len(found) == (1 if name == "AlbertModel" else 2)  # one block, used twice, has one gate


def test_gates_work_under_autocast_no_grad_and_compilation(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("nano fused sdpa").eval(), zoo.inputs()
    found = wirings(model, inputs)
    gates = {path: torch.tensor([0.0, 1.0, 1.0, 1.0], requires_grad=True) for path in found}
    compiled = torch.compile(model, backend="eager")
    plain = compiled(*inputs)
    with gated(model, found, gates):
        closed = model(*inputs)
        torch.testing.assert_close(compiled(*inputs), closed)
        with torch.no_grad():
            assert torch.equal(model(*inputs), closed)
        with torch.autocast("cpu", torch.bfloat16):
            half = model(*inputs)
            (gradient,) = torch.autograd.grad(half.sum(), [gates["layers.0.attn"]])
    torch.testing.assert_close(half.float(), closed, rtol=0.05, atol=0.05)  # bfloat16 has eight bits
    assert gradient.isfinite().all()
    assert gradient.ne(0).all()
    assert torch.equal(compiled(*inputs), plain)


def test_gates_work_in_another_thread_and_one_inside_the_other(zoo: SimpleNamespace) -> None:
    model, inputs, found = zoo_model(zoo, "lucid")
    path, seen = next(iter(found)), []
    left, right = torch.tensor([0.5, 1.0, 1.0, 1.0]), torch.tensor([0.5, 0.0, 1.0, 1.0])
    with gated(model, found, {path: left}), gated(model, found, {path: right}):
        thread = threading.Thread(target=lambda: seen.append(model(*inputs)))
        thread.start()
        thread.join()
    with gated(model, found, {path: left * right}):
        assert torch.equal(model(*inputs), seen[0])


def test_checkpointed_activations_are_right_inside_and_refused_outside(zoo: SimpleNamespace) -> None:
    model, inputs, found = zoo_model(zoo, "lucid")
    gates = {path: torch.rand(4, dtype=torch.float64, requires_grad=True) for path in found}
    with gated(model, found, gates):
        wanted = torch.autograd.grad(model(*inputs).sum(), list(gates.values()))
        output = checkpoint(model, *inputs, use_reentrant=False)
        assert all(map(torch.equal, torch.autograd.grad(output.sum(), list(gates.values())), wanted))
        output = checkpoint(model, *inputs, use_reentrant=False)
    with pytest.raises(torch.utils.checkpoint.CheckpointError):
        output.sum().backward()


def test_the_model_is_put_back_whatever_happens(zoo: SimpleNamespace) -> None:
    model, _, found = zoo_model(zoo, "nano fused sdpa")
    before = [(type(module), dict(vars(module))) for module in model.modules()]
    names, parameters = list(model.state_dict()), [id(parameter) for parameter in model.parameters()]
    gates = {path: torch.zeros(4) for path in found}
    with gated(model, found, gates):
        assert list(model.state_dict()) == names
        assert [id(parameter) for parameter in model.parameters()] == parameters
    with pytest.raises(TypeError), gated(model, found, gates):
        model()
    assert [(type(module), dict(vars(module))) for module in model.modules()] == before


def test_gates_need_no_values() -> None:
    with torch.device("meta"):
        model, x = nn.MultiheadAttention(24, 4), torch.randn(7, 2, 24)
        with gated(model, {}, {"": torch.ones(4, device="cpu")}):
            assert model(x, x, x)[0].shape == (7, 2, 24)


def test_every_gate_that_fits_nothing_is_named(zoo: SimpleNamespace) -> None:
    model, _, found = zoo_model(zoo, "lucid")
    gates = {"layers.0.attn": torch.ones(3), "layers.7": torch.ones(4), "layers.1.attn": torch.ones(4)}
    model.extra = nn.Linear(24, 24)
    model.extra.weight = model.layers[1]["attn"].to_out[0].weight  # type: ignore[index, union-attr]
    with pytest.raises(SurgeryError) as caught, gated(model, found, gates):
        pass
    assert caught.value.problems == (
        "layers.0.attn: its gate has the shape (3,), but it has 4 heads",
        "layers.7: is no attention block whose heads can be told apart; these can: layers.0.attn, layers.1.attn",
        "layers.1.attn: layers.1.attn.to_out.0.weight is also extra.weight: untie them first, "
        "so that each has its own gates",
    )
