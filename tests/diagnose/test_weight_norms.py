"""Norms of heads, against those of the rows and columns that belong to them by construction."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headtune.diagnose import norm_importance
from headtune.errors import SurgeryError

Make = Callable[[str], nn.Module]


def value_rows(model: nn.Module, name: str, layer: int, head: int) -> Tensor:
    """The weights that make a head's values."""
    block = model.layers[layer]  # type: ignore[index]
    if name == "encoder":
        return block.self_attn.in_proj_weight[32 + 4 * head : 36 + 4 * head]  # type: ignore[index, union-attr]
    if name == "grouped":
        group = head // 2
        return block.v.weight[4 * group : 4 * group + 4]  # type: ignore[index, union-attr]
    first = 12 * head + 8 if name == "interleaved" else 32 + 4 * head
    return block.qkv.weight[first : first + 4]  # type: ignore[index, union-attr]


def output_columns(model: nn.Module, name: str, layer: int, head: int) -> Tensor:
    block = model.layers[layer]  # type: ignore[index]
    out = block.self_attn.out_proj if name == "encoder" else block.out  # type: ignore[union-attr]
    return out.weight[:, 4 * head : 4 * head + 4]  # type: ignore[index, union-attr]


@pytest.mark.parametrize("name", ["fused", "interleaved", "grouped", "encoder"])
def test_a_score_is_the_product_of_two_norms(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name)
    scores = norm_importance(model, (batches[0],))
    for layer, found_H in enumerate(scores.values()):
        expected = [
            torch.linalg.norm(value_rows(model, name, layer, head))
            * torch.linalg.norm(output_columns(model, name, layer, head))
            for head in range(4)
        ]
        torch.testing.assert_close(found_H, torch.stack(expected).detach())  # float64: a few units of rounding


@pytest.mark.parametrize("name", ["fused", "encoder"])
def test_planted_heads_come_first_and_last(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name)
    with torch.no_grad():
        value_rows(model, name, 1, 3).mul_(3)
        output_columns(model, name, 1, 3).mul_(3)
        output_columns(model, name, 1, 1).zero_()
    scores_H = list(norm_importance(model, (batches[0],)).values())[1]
    assert scores_H.argmax() == 3
    assert scores_H.argmin() == 1
    assert scores_H[1] == 0


def test_scaling_values_up_and_outputs_down_changes_nothing(make: Make, batches: list[Tensor]) -> None:
    model = make("interleaved")
    before = norm_importance(model, (batches[0],))
    with torch.no_grad():
        value_rows(model, "interleaved", 0, 2).mul_(8)
        output_columns(model, "interleaved", 0, 2).div_(8)
    after = norm_importance(model, (batches[0],))
    assert all(torch.equal(before[path], after[path]) for path in before)


def test_the_model_is_left_as_it_was(make: Make, batches: list[Tensor]) -> None:
    model = make("encoder")
    before = [(type(module), dict(vars(module))) for module in model.modules()]
    norm_importance(model, (batches[0],), paths=["layers.0.self_attn"])
    assert [(type(module), dict(vars(module))) for module in model.modules()] == before


@pytest.mark.parametrize("name", ["GPT2Model", "BertModel"])
def test_models_of_transformers(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    config = getattr(transformers, name.replace("Model", "Config"))(
        vocab_size=20, bos_token_id=0, eos_token_id=0, **sizes
    )
    model = getattr(transformers, name)(config).double()
    (scores_H,) = norm_importance(model, {"input_ids": torch.arange(14).reshape(2, 7)}).values()
    if name == "GPT2Model":  # Conv1D: weights are (in, out)
        v, out = model.h[0].attn.c_attn.weight[:, 32:].T, model.h[0].attn.c_proj.weight.T
    else:
        v, out = (
            model.encoder.layer[0].attention.self.value.weight,
            model.encoder.layer[0].attention.output.dense.weight,
        )
    expected = [torch.linalg.norm(v[h : h + 4]) * torch.linalg.norm(out[:, h : h + 4]) for h in range(0, 16, 4)]
    torch.testing.assert_close(scores_H, torch.stack(expected).detach())


def test_a_block_that_is_none_is_refused(make: Make, batches: list[Tensor]) -> None:
    with pytest.raises(SurgeryError) as caught:
        norm_importance(make("fused"), (batches[0],), paths=["x"])
    assert str(caught.value) == "x: is no attention block; these are: layers.0, layers.1"
