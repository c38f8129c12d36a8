"""Families of transformers, tiny, each with the configuration that a plan's counts give."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers as tf
from torch import nn

from headtune import HeadCount, HeadPlan
from headtune.surgery import Case

Config = Callable[[HeadCount], Any]

D, V, T = 48, 60, 7
SIZES: dict[str, Any] = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 2, "intermediate_size": 40}
PLAIN, GROUPED = HeadCount(4, 4, 12), HeadCount(4, 2, 12)
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def heads(count: HeadCount) -> dict[str, int]:
    return {"num_attention_heads": count.num_heads}


def grouped(count: HeadCount) -> dict[str, int]:
    return {**heads(count), "num_key_value_heads": count.num_kv_heads, "head_dim": count.head_dim}


def bart(count: HeadCount) -> Any:
    n = count.num_heads
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
    special = {**SPECIAL, "decoder_start_token_id": 2, "max_position_embeddings": 16}
    both = {"encoder_attention_heads": n, "decoder_attention_heads": n}
    return tf.BartConfig(vocab_size=V, d_model=D, **both, **layers, **special)


def gpt2(count: HeadCount) -> Any:
    return tf.GPT2Config(vocab_size=V, n_embd=D, n_layer=2, n_head=count.num_heads, n_positions=16, **SPECIAL)


def t5(count: HeadCount) -> Any:
    return tf.T5Config(vocab_size=V, d_model=D, d_kv=count.head_dim, num_heads=count.num_heads, d_ff=40, num_layers=2)


def vit(count: HeadCount) -> Any:
    sizes = {"hidden_size": D, "num_hidden_layers": 2, "intermediate_size": 40, "image_size": 12, "patch_size": 4}
    return tf.ViTConfig(**sizes, **heads(count))


def small(config: Callable[..., Any], **more: object) -> Config:
    """A configuration with the customary names."""
    return lambda count: config(**SIZES, **heads(count), **more)


def small_grouped(config: Callable[..., Any], **more: object) -> Config:
    return lambda count: config(**SIZES, **grouped(count), **more)


def cases() -> list[Case]:
    ids = torch.randint(3, V, (2, T), generator=torch.Generator().manual_seed(0))
    encoder = {"input_ids": ids}
    decoder = {"input_ids": ids, "use_cache": False}
    both = {**decoder, "decoder_input_ids": ids[:, :5]}
    image = {"pixel_values": torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))}
    short = {"max_position_embeddings": 16}
    return [
        case("BERT", tf.BertModel, small(tf.BertConfig, **short), encoder),
        case("BERT, eager attention", tf.BertModel, small(tf.BertConfig, **short), encoder, kind="eager"),
        case("RoBERTa", tf.RobertaModel, small(tf.RobertaConfig, **short), encoder),
        case("DistilBERT", tf.DistilBertModel, lambda count: distilbert(count), encoder),
        case("ALBERT", tf.AlbertModel, small(tf.AlbertConfig, embedding_size=16, **short), encoder),
        case("ViT", tf.ViTModel, vit, image),
        case("GPT-2", tf.GPT2Model, gpt2, decoder),
        case("BART", tf.BartModel, bart, both),
        case("T5", tf.T5Model, t5, both),
        case("Llama", tf.LlamaModel, small_grouped(tf.LlamaConfig, **short), decoder, GROUPED),
        case("Mistral", tf.MistralModel, small_grouped(tf.MistralConfig, **short), decoder, GROUPED),
        case("Qwen2", tf.Qwen2Model, small_grouped(tf.Qwen2Config, **short), decoder, GROUPED),
        case("Qwen3", tf.Qwen3Model, small_grouped(tf.Qwen3Config, **short), decoder, GROUPED),
        case("Phi-3", tf.Phi3Model, small_grouped(tf.Phi3Config, **short, **SPECIAL), decoder, GROUPED),
        case("OLMo2", tf.Olmo2Model, small_grouped(tf.Olmo2Config, **short), decoder),
        case("GPT-NeoX", tf.GPTNeoXModel, neox, decoder, HeadCount(4, 4, 16)),
        case("BLOOM", tf.BloomModel, lambda count: bloom(count), decoder),
        case("Falcon", tf.FalconModel, small(tf.FalconConfig, multi_query=False), decoder),
        case("Falcon, grouped heads", tf.FalconModel, falcon, decoder, GROUPED),
        case("XLNet", tf.XLNetModel, lambda count: xlnet(count), encoder),
    ]


def distilbert(count: HeadCount) -> Any:
    sizes = {"vocab_size": V, "dim": D, "n_layers": 2, "hidden_dim": 40, "max_position_embeddings": 16}
    return tf.DistilBertConfig(**sizes, n_heads=count.num_heads)


def bloom(count: HeadCount) -> Any:
    return tf.BloomConfig(vocab_size=V, hidden_size=D, n_layer=2, n_head=count.num_heads)


def falcon(count: HeadCount) -> Any:
    return tf.FalconConfig(**SIZES, **heads(count), new_decoder_architecture=True, num_kv_heads=count.num_kv_heads)


def neox(count: HeadCount) -> Any:
    """A quarter of each head is rotated: of 16 features, four."""
    sizes = SIZES | {"hidden_size": 64, "max_position_embeddings": 16}
    return tf.GPTNeoXConfig(**sizes, **heads(count), **SPECIAL)


def xlnet(count: HeadCount) -> Any:
    return tf.XLNetConfig(vocab_size=V, d_model=D, n_layer=2, n_head=count.num_heads, d_inner=40)


def case(
    name: str,
    model: Callable[[Any], nn.Module],
    config: Config,
    inputs: Mapping[str, Any],
    count: HeadCount = PLAIN,
    kind: str | None = None,
) -> Case:
    """The family of one model class, by its configuration for a count."""

    def made(wanted: HeadCount) -> nn.Module:
        settings = config(wanted)
        if kind is not None:
            settings._attn_implementation = kind
        return model(settings)

    def build() -> nn.Module:
        torch.manual_seed(0)
        return made(count)

    def rebuild(plan: HeadPlan) -> nn.Module:
        return made(plan[plan.paths[0]])

    return Case(name=name, build=build, inputs=inputs, rebuild=rebuild)
