from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError
from headtune.timing import LatencyProtocol, measure, peak_memory_mb
from headtune.timing.decode import decoded_token
from headtune.timing.forward import Forward
from headtune.timing.inputs import Given

transformers = pytest.importorskip("transformers", reason="pip install 'headtune[hf]'")

PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=2, mode="decode", max_seconds=0.3)
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
LONGER = torch.cat([IDS, IDS[:, -1:]], dim=1)


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4
    )
    model: nn.Module = transformers.LlamaForCausalLM(config).eval()
    return model


def t5() -> nn.Module:
    config = transformers.T5Config(vocab_size=11, d_model=16, d_kv=4, d_ff=16, num_layers=2, num_heads=4)
    model: nn.Module = transformers.T5ForConditionalGeneration(config).eval()
    return model


class Own(nn.Module):
    """A person's own decoder, whose cache is a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.scale = nn.Embedding(11, 4), nn.Linear(4, 4)

    def forward(
        self, ids: Tensor, past_key_values: tuple[Tensor, ...] | None = None, use_cache: bool = False
    ) -> dict[str, Any]:
        values = self.scale(self.embed(ids))
        if past_key_values is not None:
            values = torch.cat([past_key_values[0], values], dim=1)
        logits = values.cumsum(1)[:, -ids.shape[1] :]
        return {"logits": logits, "past_key_values": (values,) if use_cache else None}


@pytest.mark.parametrize(
    ("build", "short", "long"),
    [
        (llama, {"input_ids": IDS}, {"input_ids": LONGER}),
        (
            llama,
            {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "labels": IDS},
            {"input_ids": LONGER},
        ),
        (t5, {"input_ids": IDS, "decoder_input_ids": IDS}, {"input_ids": IDS, "decoder_input_ids": LONGER}),
        (Own, {"ids": IDS}, {"ids": LONGER}),
    ],
)
def test_a_decoded_token_is_the_last_of_a_pass_over_all(
    build: Callable[[], nn.Module], short: dict[str, Tensor], long: dict[str, Tensor]
) -> None:
    torch.manual_seed(0)
    model = build()
    with torch.inference_mode():
        step = decoded_token(Forward(name="it", model=model, given=Given(short)), PROTOCOL)
        whole: Any = model(**long)
        found: list[Any] = []
        for _ in range(2):
            step.renew()
            found.append(step.call())
    for one in found:
        assert one["logits"].shape[1] == 1
        # Sums in another order, in float32.
        assert torch.allclose(one["logits"][:, -1], whole["logits"][:, -1], atol=1e-5)


def test_the_cache_grows_over_calls_in_a_row_and_is_renewed() -> None:
    model = llama()
    with torch.inference_mode():
        step = decoded_token(Forward(name="it", model=model, given=Given((IDS,))), PROTOCOL)
        lengths = []
        for renew in (True, False, True):
            if renew:
                step.renew()
            output: Any = step.call()
            lengths.append(output.past_key_values.get_seq_length())
    assert lengths == [6, 7, 6]


def test_a_pass_of_one_token_is_measured_and_is_faster_than_one_of_many() -> None:
    ids = torch.ones(2, 256, dtype=torch.long)
    model = llama()
    decode = measure(model, (ids,), PROTOCOL)
    forward = measure(model, (ids,), LatencyProtocol(device="cpu", threads=1, max_seconds=0.3))
    assert decode.protocol.mode == "decode"
    assert decode.median_ms < forward.median_ms  # 256 times the positions


def test_the_cache_counts_as_memory() -> None:
    model = llama()
    short, long = (
        peak_memory_mb(model, (torch.ones(2, length, dtype=torch.long),), PROTOCOL) * 1e6 for length in (64, 256)
    )
    # Keys and values of 16 features, 2 layers, 2 examples, 4 bytes a position; kept, and once more as it grows.
    cache = 2 * 16 * 2 * 2 * 4 * (256 - 64)
    assert cache <= long - short <= 4 * cache


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Linear(5, 5), "its forward takes no past_key_values and no use_cache"),
        (type("Lying", (Own,), {"forward": lambda self, ids, past_key_values=None, use_cache=False: {}})(), "has none"),
    ],
)
def test_a_model_without_a_cache_is_refused(model: nn.Module, said: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        measure(model, (torch.ones(2, 5),), PROTOCOL)
    assert str(caught.value).startswith("the model has no KV cache that headtune knows")
    assert said in str(caught.value)
    assert "measure mode: forward otherwise" in str(caught.value)
