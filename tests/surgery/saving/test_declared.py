from types import SimpleNamespace

from torch import nn

from headtune.surgery.saving.declared import declared_counts


def test_numbers_that_are_called_like_head_counts_are_listed(zoo: SimpleNamespace) -> None:
    assert declared_counts(zoo.build("lucid")) == {"layers.0.attn.heads": 4, "layers.1.attn.heads": 4}


def test_a_configuration_that_blocks_share_is_listed_once(zoo: SimpleNamespace) -> None:
    assert declared_counts(zoo.build("config")) == {
        "layers.0.attn.config.n_head": 4,
        "layers.0.attn.config.head_dim": 6,
    }


def test_of_pytorchs_own_modules_only_attention_counts() -> None:
    model = nn.TransformerEncoderLayer(8, 2)
    model.norm1.num_heads = 9  # type: ignore[assignment]
    assert declared_counts(model) == {"self_attn.num_heads": 2, "self_attn.head_dim": 4}
