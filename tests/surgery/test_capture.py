"""Captured maps and outputs are those that the model computes with."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.nn import HeadedAttention
from headtune.surgery import captured, find_sites
from headtune.surgery.wiring import wirings

NAMES = [
    *("nano fused sdpa", "nano fused manual", "annotated", "lucid", "merged", "einsum", "vision", "tensor scale"),
    *("grouped repeat", "grouped sdpa", "grouped fused", "nano cross", "child"),
]


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_what_the_output_projection_reads_and_maps_weigh_the_values(
    zoo: SimpleNamespace, name: str
) -> None:
    model, inputs = zoo.build(name, 4, 2 if "grouped" in name else 4).double().eval(), zoo.inputs(name)
    inputs = tuple(tensor.double() for tensor in inputs)
    read: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_pre_hook(lambda _, args, path=path: read.update({path: args[0]}))
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    seen = captured(model, inputs)
    model(*inputs)
    for hook in hooks:
        hook.remove()
    assert list(seen) == [site.path for site in find_sites(model, inputs)]
    for path, wiring in wirings(model, inputs).items():
        ((one,),) = [seen[path]]
        B, H, T, _ = one.maps.shape
        for head, features in enumerate(wiring.out):
            ((weight, columns),) = features.items()
            source = read[weight.removesuffix(".weight")][..., sorted(columns)]
            if name == "merged":
                source = source.transpose(0, 1)
            torch.testing.assert_close(one.outputs[:, :, head], source, rtol=0, atol=1e-12)
        assert (inputs[0].shape[0], 4, inputs[0].shape[1]) == (B, H, T)
        rounding = 1e-6 if name == "grouped repeat" else 1e-12  # that one has a float32 softmax
        torch.testing.assert_close(one.maps.sum(-1), torch.ones(B, H, T, dtype=torch.float64), rtol=0, atol=rounding)


def test_maps_of_fused_attention_are_those_of_the_written_out_twin(zoo: SimpleNamespace) -> None:
    fused, written = zoo.build("nano fused sdpa").double(), zoo.build("nano fused manual").double()
    written.load_state_dict(fused.state_dict())
    inputs = tuple(tensor.double() for tensor in zoo.inputs())
    left, right = captured(fused, inputs), captured(written, inputs)
    assert list(left) == list(right)
    for path in left:
        torch.testing.assert_close(left[path][0].maps, right[path][0].maps, rtol=0, atol=1e-14)
        torch.testing.assert_close(left[path][0].outputs, right[path][0].outputs, rtol=0, atol=1e-14)
        assert left[path][0].maps.triu(1).eq(0).all()


def test_pytorchs_own_block_gives_its_own_weights() -> None:
    block = nn.MultiheadAttention(24, 4, batch_first=True, add_bias_kv=True).double().eval()
    x, memory = torch.randn(2, 7, 24, dtype=torch.float64), torch.randn(2, 9, 24, dtype=torch.float64)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 6:] = True
    inputs = {"query": x, "key": memory, "value": memory, "key_padding_mask": padding}
    output, weights = block(**inputs, average_attn_weights=False)
    (one,) = captured(block, inputs)[""]
    assert torch.equal(one.maps, weights)
    assert one.outputs.shape == (2, 7, 4, 6)
    torch.testing.assert_close(block.out_proj(one.outputs.flatten(2)), output, rtol=0, atol=1e-14)
    (alone,) = captured(block, {"query": x[0], "key": memory[0], "value": memory[0]})[""]
    torch.testing.assert_close(alone.maps[0], one.maps[0], rtol=0, atol=1e-14)


def test_a_whole_transformer_gives_every_block() -> None:
    model = nn.Transformer(24, 4, 1, 1, 32, batch_first=True).double()
    inputs = (torch.randn(2, 7, 24, dtype=torch.float64), torch.randn(2, 5, 24, dtype=torch.float64))
    seen = captured(model, inputs)
    assert {path: tuple(calls[0].maps.shape) for path, calls in seen.items()} == {
        "encoder.layers.0.self_attn": (2, 4, 7, 7),
        "decoder.layers.0.self_attn": (2, 4, 5, 5),
        "decoder.layers.0.multihead_attn": (2, 4, 5, 7),
    }


def test_headed_attention_with_groups_gives_its_own_weights() -> None:
    block = HeadedAttention(24, 4, head_dim=5, num_kv_heads=2, batch_first=True).double().eval()
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    _, weights = block(x, x, x, average_attn_weights=False)
    (one,) = captured(block, {"query": x, "key": x, "value": x, "need_weights": False})[""]
    torch.testing.assert_close(one.maps, weights, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["BertModel", "GPT2Model", "LlamaModel", "GPTNeoXModel", "AlbertModel"])
def test_models_of_transformers_give_what_they_return_themselves(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    kind = getattr(transformers, name.replace("Model", "Config"))
    tokens = {"input_ids": torch.arange(14).reshape(2, 7)}
    eager = getattr(transformers, name)(
        kind(vocab_size=20, bos_token_id=0, eos_token_id=0, attn_implementation="eager", **sizes)
    ).eval()
    wanted = eager(**tokens, output_attentions=True).attentions
    found = [one.maps for calls in captured(eager, tokens).values() for one in calls]
    assert all(map(torch.equal, found, wanted))
    assert len(found) == len(wanted) == 2
    eager.set_attn_implementation("sdpa")
    fused = [one.maps for calls in captured(eager, tokens).values() for one in calls]
    for one, other in zip(fused, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)  # float32


def test_half_precision_autocast_and_compilation(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    wanted = captured(model, inputs)["layers.0.attn"][0].maps
    (compiled,) = captured(torch.compile(model, backend="eager"), inputs)["_orig_mod.layers.0.attn"]  # type: ignore[arg-type]
    assert torch.equal(compiled.maps, wanted)
    with torch.autocast("cpu", torch.bfloat16):
        (cast,) = captured(model, inputs)["layers.0.attn"]
    half = tuple(tensor.bfloat16() for tensor in inputs)
    (small,) = captured(model.bfloat16(), half)["layers.0.attn"]
    for one in (cast, small):
        torch.testing.assert_close(one.maps.float(), wanted, rtol=0, atol=0.02)  # bfloat16 has eight bits


def test_the_model_is_left_as_it_was(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("annotated").train(), zoo.inputs("annotated")
    before = [(type(module), dict(vars(module))) for module in model.modules()]
    state = torch.get_rng_state()
    captured(model, inputs)
    assert [(type(module), dict(vars(module))) for module in model.modules()] == before
    assert torch.equal(torch.get_rng_state(), state)


def test_a_block_whose_heads_are_mixed_before_they_are_read_is_left_out_aloud() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (part.view(*x.shape[:2], 4, 6).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return self.out(heads * x.sigmoid())

    words = "^the model: no projection reads its output head by head, so that it cannot be captured$"
    with pytest.warns(UserWarning, match=words):
        assert captured(Gate(), (torch.randn(2, 7, 24),)) == {}


def test_what_cannot_run_is_an_error_in_words(zoo: SimpleNamespace) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SurgeryError) as caught:
            captured(zoo.build("lucid"), (torch.randn(2, 7, 5),))
    assert str(caught.value).startswith("the forward pass of Stack raised RuntimeError: ")
    with torch.device("meta"):
        model = zoo.build("lucid")
    with pytest.raises(SurgeryError) as caught:
        captured(model, zoo.inputs())
    assert str(caught.value) == (
        "layers.0.norm.weight is on the meta device, and attention has no values there: load the weights first"
    )
