"""Against the truth that transformers itself can build: the same weights under a configuration with other counts."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply, apply_plan, find_sites, possibilities, prune

transformers = pytest.importorskip("transformers")

IDS = {"input_ids": torch.tensor([[5, 3, 8, 1, 9, 2, 7]])}
COMMON = {"vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 48}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("Bert", {"num_attention_heads": 8}, {"num_attention_heads": 4}),
    "albert": ("Albert", {"num_attention_heads": 8, "embedding_size": 16}, {"num_attention_heads": 4}),
    "gpt2": ("GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 8}, {"n_head": 4}),
    "llama": (
        "Llama",
        {"num_attention_heads": 8, "num_key_value_heads": 2},
        {"num_attention_heads": 4, "num_key_value_heads": 1},
    ),
    "phi3": (
        "Phi3",
        {"num_attention_heads": 8, "num_key_value_heads": 4, "pad_token_id": 0},
        {"num_attention_heads": 4, "num_key_value_heads": 2},
    ),
    "gpt_neox": ("GPTNeoX", {"num_attention_heads": 8}, {"num_attention_heads": 4}),
    "phi": ("Phi", {"num_attention_heads": 8}, {"num_attention_heads": 4}),  # reads rotary_ndims
}


def built(family: str, **config: Any) -> nn.Module:
    made = getattr(transformers, f"{family}Config")(**{**COMMON, **config})
    torch.manual_seed(0)
    model: nn.Module = getattr(transformers, f"{family}Model")(made)
    return model


def inputs_of(model: nn.Module) -> dict[str, Any]:
    return {**IDS, "use_cache": False} if hasattr(model.config, "use_cache") else dict(IDS)


def halved(model: nn.Module, first: int | None = None) -> HeadPlan:
    """Half of the heads, twice as wide, at the first sites only where a number is given."""
    sites = find_sites(model, inputs_of(model))
    counts = {
        site.path: HeadCount(site.num_heads // 2, max(1, site.num_kv_heads // 2), 2 * site.head_dim)
        if first is None or index < first
        else site.present
        for index, site in enumerate(sites)
    }
    return HeadPlan.of(counts)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_reheaded_is_built_with_that_count_to_the_last_bit(case: str, kernel: str) -> None:
    family, present, wanted = CASES[case]
    model = built(family, **present, attn_implementation=kernel)
    truth = built(family, **{**present, **wanted}, attn_implementation=kernel)
    truth.load_state_dict(model.state_dict())
    reheaded = apply_plan(model, halved(model), inputs_of(model), hold="width")
    with torch.no_grad():
        found, expected, before = (one.eval()(**inputs_of(model))[0] for one in (reheaded, truth, model))
    assert torch.equal(found, expected)
    assert not torch.allclose(found, before, atol=1e-5)


@pytest.mark.parametrize("case", ["llama", "phi3", "gpt_neox"])
def test_layers_that_share_a_table_of_rotations_share_a_head_dim(case: str) -> None:
    family, present, _ = CASES[case]
    model = built(family, **present)
    with pytest.raises(SurgeryError, match=r"layers\.0\.(self_attn|attention)"):
        apply_plan(model, halved(model, first=1), inputs_of(model), hold="width")


def test_a_partly_rotated_head_with_a_stale_table_would_run_in_silence() -> None:
    """Why the guard is needed: nothing raises, and the count is as asked."""
    model = built("Phi3", num_attention_heads=8, num_key_value_heads=8, pad_token_id=0)
    for layer in model.layers:
        layer.self_attn.head_dim, layer.self_attn.scaling = 16, 16**-0.5
    model.config.num_attention_heads = 4
    with torch.no_grad():
        model.eval()(**inputs_of(model))
    assert [site.present for site in find_sites(model, inputs_of(model))] == [HeadCount(4, 4, 16)] * 2


def test_norms_over_a_head_refuse_another_head_dim() -> None:
    model = built("Qwen3", num_attention_heads=8, num_key_value_heads=2, head_dim=8)
    with pytest.raises(SurgeryError, match=r"layers\.0\.self_attn"):
        apply_plan(model, halved(model), inputs_of(model), hold="width")


def test_groups_come_to_a_block_that_had_none() -> None:
    """BERT under SDPA: keys and values of one head serve two."""
    model = built("Bert", num_attention_heads=8)
    sites = find_sites(model, IDS)
    plan = HeadPlan.of({site.path: HeadCount(8, 4, 8) for site in sites})
    grouped = apply_plan(model, plan, IDS, hold="head_dim")
    assert [site.present for site in find_sites(grouped, IDS)] == [HeadCount(8, 4, 8)] * 2
    assert grouped.encoder.layer[0].attention.self.key.weight.shape == (32, 64)


def test_resized_tensors_are_drawn_as_the_model_draws_them() -> None:
    model = built("GPT2", n_embd=64, n_layer=1, n_head=4)
    inputs = inputs_of(model)
    plan = HeadPlan.of({site.path: HeadCount(8, 8, 16) for site in find_sites(model, inputs)})
    larger = apply_plan(model, plan, inputs, hold="head_dim")
    weight = larger.h[0].attn.c_attn.weight
    assert weight.shape == (64, 384)
    # Normal with 0.02; the standard deviation of 24,576 numbers strays by 0.45 %, six times that is allowed.
    assert weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert not larger.h[0].attn.c_attn.bias.any()


def test_tables_of_rotations_for_each_kind_of_layer_follow() -> None:
    config = {"num_attention_heads": 8, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}
    model = built("ModernBert", **config)
    reheaded = apply_plan(model, halved(model), IDS, hold="width").eval()
    truth = built("ModernBert", **config | {"num_attention_heads": 4}).eval()
    truth.load_state_dict(reheaded.state_dict())
    with torch.no_grad():
        assert torch.equal(reheaded(**IDS)[0], truth(**IDS)[0])


def t5() -> tuple[nn.Module, dict[str, torch.Tensor], list[str]]:
    """A T5, its inputs and the paths of its cross-attention."""
    config = {"vocab_size": 50, "d_model": 24, "d_kv": 6, "d_ff": 32, "num_heads": 4, "num_layers": 1}
    torch.manual_seed(0)
    model = transformers.T5Model(transformers.T5Config(**config, num_decoder_layers=2)).double().eval()
    cross = [f"decoder.block.{layer}.layer.1.EncDecAttention" for layer in range(2)]
    return model, {"input_ids": IDS["input_ids"], "decoder_input_ids": IDS["input_ids"].flip(1)}, cross


def test_cross_attention_of_t5_reads_no_table_and_changes_as_a_whole() -> None:
    model, inputs, cross = t5()
    for found in possibilities(model, inputs):
        reasons = (found.rehead, found.resize, found.prune)
        if found.site.path in cross:
            assert reasons == (None, None, None)
        else:
            assert all(reason and "is a table of biases for 4 heads" in reason for reason in reasons)
    silent, split = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        for path in cross:
            silent.get_submodule(path).o.weight[:, 6:12] = 0
            vars(split.get_submodule(path)).update(n_heads=2, key_value_proj_dim=12)
    pruned = prune(model, {"role=cross": [0, 2, 3]}, inputs)
    torch.testing.assert_close(pruned(**inputs)[0], silent(**inputs)[0], rtol=0, atol=1e-10)
    sites = find_sites(model, inputs)
    reheaded = apply(model, HeadPlan.parse("role=cross=2", sites, hold="width"), inputs)
    assert torch.equal(reheaded(**inputs)[0], split(**inputs)[0])


@pytest.mark.parametrize("block", [0, 1])
def test_one_block_of_it_alone_is_refused_with_the_way_out(block: int) -> None:
    model, inputs, cross = t5()
    plan = HeadPlan.parse(f"{cross[block]}=2", find_sites(model, inputs), hold="width")
    way_out = (
        r"forward is handed position_bias, which one block makes for the heads of all "
        r"decoder\.block\.\*\.layer\.\*\.EncDecAttention: give all of these the same number of heads"
    )
    with pytest.raises(SurgeryError, match=way_out):
        prune(model, {cross[block]: [0, 2, 3]}, inputs)
    with pytest.raises(SurgeryError, match=way_out):
        apply(model, plan, inputs)
