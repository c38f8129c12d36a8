"""A Llama-shaped model of eight billion parameters on the meta device: sites and legal counts, without a weight."""

import resource
import time
from typing import Any

import pytest
import torch

from headtune.heads import HeadCount, SearchSpace, SpaceOptions
from headtune.surgery import find_sites

pytestmark = pytest.mark.slow


def test_sites_and_legal_counts(capsys: pytest.CaptureFixture[str]) -> None:
    transformers: Any = pytest.importorskip("transformers")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
        # With its cache: without one, transformers looks for packed sequences in the values of the inputs.
        inputs = {"input_ids": torch.zeros(1, 16, dtype=torch.long)}
    built = time.perf_counter() - start
    sites = find_sites(model, inputs)
    space = SearchSpace.of(sites, SpaceOptions(hold="head_dim"))
    seconds = time.perf_counter() - start
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    parameters = sum(parameter.numel() for parameter in model.parameters())
    took = f"{seconds:.1f} s, {built:.1f} of them to build it, {megabytes:.0f} MB more"
    with capsys.disabled():
        print(f"\n{parameters / 1e9:.2f} billion parameters: {took}")
    assert parameters == 8_030_261_248
    assert [site.path for site in sites] == [f"model.layers.{number}.self_attn" for number in range(32)]
    assert {(site.role, site.embed_dim, *site.present) for site in sites} == {("causal", 4096, 32, 8, 128)}
    assert seconds < 60
    assert megabytes < 2000
    # Eight groups of four heads each: one to eight of them in every layer.
    assert [choice.num_heads for choice in space.dimensions[0].choices] == [4, 8, 12, 16, 20, 24, 28, 32]
    assert {count for _, count in space.smallest} == {HeadCount(4, 1, 128)}
    assert space.size == 8**32
