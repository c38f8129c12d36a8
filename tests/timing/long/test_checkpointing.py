import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.heads import AttentionSite
from headtune.timing import LatencyProtocol, checkpointed, peak_memory_mb
from headtune.timing.long.checkpointing import Recomputed

B, T, E, H = 2, 9, 16, 4


def encoder(dropout: float, layers: int = 2, width: int = E) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, H, 2 * width, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, layers)


def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Of the parameters, by their names in the model as it was, under the same random numbers."""
    torch.manual_seed(1)
    model(x).square().mean().backward()
    found = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        found[name.replace(".layer.", ".")] = parameter.grad
    return found


class Counted(nn.Linear):
    """Counts its calls."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        return super().forward(x)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_those_of_the_model(dropout: float) -> None:
    model, x = encoder(dropout).train(), torch.randn(B, T, E)
    for layer in model.layers:
        layer.linear1 = Counted(E, 2 * E)
    switched = checkpointed(model, headtune.sites(model, (x,)))
    assert switched.paths == ("layers.0.self_attn", "layers.1.self_attn")
    assert switched.left_out == {}
    assert all(type(layer) is Recomputed for layer in switched.model.layers)
    assert not any(isinstance(module, Recomputed) for module in model.modules())
    expected = gradients(model, x)
    Counted.calls = 0
    found = gradients(switched.model, x)
    assert Counted.calls == 4  # each layer forwards once more than without
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=0, msg=name)


def test_without_gradients_nothing_is_computed_twice() -> None:
    model, x = encoder(0.0).eval(), torch.randn(B, T, E)
    switched = checkpointed(model, headtune.sites(model, (x,)))
    with torch.no_grad():
        torch.testing.assert_close(switched.model(x), model(x), rtol=0, atol=2e-6)


def test_a_layer_that_is_used_twice_stays_one() -> None:
    layer = encoder(0.0).layers[0]
    model, x = nn.Sequential(layer, nn.Linear(E, E), layer), torch.randn(B, T, E)
    switched = checkpointed(model, headtune.sites(model, (x,)))
    first, _, last = switched.model
    assert type(first) is Recomputed
    assert first is last
    expected, found = gradients(model, x), gradients(switched.model, x)
    assert [name.replace("layer.", "") for name in found] == list(expected)
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8)


def test_a_cache_is_not_filled_twice() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=E,
        num_hidden_layers=2,
        num_attention_heads=H,
        num_key_value_heads=2,
        intermediate_size=32,
        vocab_size=50,
    )
    model = transformers.LlamaForCausalLM(config).train()
    inputs = {"input_ids": torch.randint(0, 50, (B, T))}
    switched = checkpointed(model, headtune.sites(model, inputs))
    assert switched.paths == ("model.layers.0.self_attn", "model.layers.1.self_attn")
    for one in (model, switched.model):
        returned = one(**inputs)
        returned.logits.square().mean().backward()
        assert returned.past_key_values.get_seq_length() == (T if one is model else 0)
    ours, theirs = ([parameter.grad for parameter in one.parameters()] for one in (switched.model, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)


def test_copies_of_the_copy_compute_with_their_own_weights() -> None:
    model, x = encoder(0.0), torch.randn(B, T, E)
    switched = checkpointed(model, headtune.sites(model, (x,))).model
    for again in (copy.deepcopy(switched), pickle.loads(pickle.dumps(switched))):
        assert all(type(layer) is Recomputed for layer in again.layers)
        with torch.no_grad():
            for parameter in again.parameters():
                parameter.zero_()
        assert not again(x).any()
        assert switched(x).any()


class Copied(nn.TransformerEncoderLayer):
    """Says itself how it is copied."""

    def __deepcopy__(self, memo: dict[int, object]) -> "Copied":
        again = Copied(E, H, 2 * E, dropout=0.0, batch_first=True)
        again.load_state_dict(self.state_dict())
        return again


def test_how_a_layer_copies_itself_is_not_how_its_wrapper_does() -> None:
    model, x = nn.Sequential(Copied(E, H, 2 * E, dropout=0.0, batch_first=True)), torch.randn(B, T, E)
    switched = checkpointed(model, headtune.sites(model, (x,))).model
    again = copy.deepcopy(switched)
    assert [type(again[0]), type(again[0].layer)] == [Recomputed, Copied]
    assert again[0].linear1.in_features == E  # what else is asked, the layer answers


def site(path: str) -> AttentionSite:
    return AttentionSite(path=path, role="self", embed_dim=E, num_heads=H, num_kv_heads=H, head_dim=E // H)


class Nested(nn.Module):
    """Layers within stages, one bare block in a list, and one block beside them."""

    def __init__(self) -> None:
        super().__init__()
        stage = nn.ModuleList([nn.ModuleDict({"attention": nn.Linear(E, E)})])
        self.stages = nn.ModuleList([stage])
        self.blocks = nn.ModuleList([nn.Linear(E, E)])
        self.pooling = nn.Linear(E, E)
        self.body = nn.Sequential(nn.ModuleDict({"inner": nn.Sequential(nn.Linear(E, E))}))


def test_a_layer_is_the_innermost_entry_around_the_site() -> None:
    switched = checkpointed(
        Nested(), [site(path) for path in ("stages.0.0.attention", "blocks.0", "pooling", "body.0.inner.0")]
    )
    assert [path for path, module in switched.model.named_modules() if isinstance(module, Recomputed)] == [
        "stages.0.0",
        "blocks.0",
        "body.0",
    ]
    assert switched.paths == ("stages.0.0.attention", "blocks.0", "body.0.inner.0")
    assert switched.left_out == {
        "pooling": "no nn.ModuleList or nn.Sequential holds a layer with it; keep the layers in one"
    }


def test_it_spares_the_memory_of_a_training_step() -> None:
    model, x = encoder(0.0, layers=6, width=32), torch.randn(4, 128, 32)
    switched = checkpointed(model, headtune.sites(model, (x,)))
    protocol = LatencyProtocol(device="cpu", threads=1, mode="train_step")
    assert peak_memory_mb(switched.model, (x,), protocol) < 0.6 * peak_memory_mb(model, (x,), protocol)
