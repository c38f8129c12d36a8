from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import InputError, MeasurementError
from headtune.timing import LatencyProtocol, measure
from headtune.timing.calls import Call
from headtune.timing.prediction import sum_blocks
from headtune.timing.prediction.blocks import blocks_of, materialised

PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=2, seq_len=8, max_seconds=0.1)


class Stacked(nn.Module):
    """Embedding, four layers of which the third has other heads, a second list without attention, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2 if i == 2 else 4, 32, batch_first=True) for i in range(4)
        )
        self.mixer = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.head(self.mixer(x[:, :4]))
        return out


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    return (torch.zeros(batch_size, seq_len or 8, dtype=torch.long),)


PATHS = [f"layers.{i}.self_attn" for i in range(4)]


def called(model: nn.Module, paths: list[str]) -> dict[str, Call]:
    return {path: call for calls in blocks_of(model, inputs(2, 8), paths) for path, call in calls}


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return Stacked()


def test_alike_blocks_are_one_and_together_they_are_the_model() -> None:
    model = on_meta()
    alike = [[path for path, _ in calls] for calls in blocks_of(model, inputs(2, 8), PATHS)]
    assert alike == [["embed"], ["layers.0", "layers.1", "layers.3"], ["layers.2"], ["mixer"], ["head"]]
    held = [id(one) for paths in alike for path in paths for one in model.get_submodule(path).parameters()]
    assert sorted(held) == sorted(id(one) for one in model.parameters())


def test_a_block_is_given_what_it_really_gets() -> None:
    real, seen = Stacked().eval(), {}
    for path in ("embed", "layers.2", "mixer", "head"):

        def note(module: nn.Module, args: tuple[Tensor, ...], at: str = path) -> None:
            seen[at] = [(tuple(one.shape), one.dtype) for one in args]

        real.get_submodule(path).register_forward_pre_hook(note)
    real(*inputs(2, 8))
    calls = called(on_meta(), PATHS)
    for path, expected in seen.items():
        _, given = materialised(on_meta(), path, calls[path], PROTOCOL)
        tensors: list[Any] = [one for one in given if isinstance(one, Tensor)]
        assert [(tuple(one.shape), one.dtype) for one in tensors] == expected
        assert all(one.device.type == "cpu" for one in tensors)


def test_a_block_has_weights_of_its_own_and_the_model_none() -> None:
    model = on_meta()
    calls = called(model, PATHS)
    block, given = materialised(model, "layers.0", calls["layers.0"], PROTOCOL)
    output: Any = block(*given)
    assert output.shape == (2, 8, 16)
    assert torch.isfinite(output).all()
    assert all(one.is_meta for one in model.parameters())


def test_the_sum_counts_alike_blocks_as_often_as_they_are_there_and_matches_the_whole() -> None:
    found = sum_blocks(on_meta(), inputs, PROTOCOL, PATHS)
    assert [len(block.paths) for block in found.blocks] == [1, 3, 1, 1, 1]
    assert found.median_ms == pytest.approx(sum(len(one.paths) * one.latency.median_ms for one in found.blocks))
    low, high = found.interval_ms
    assert low <= found.median_ms <= high
    whole = measure(Stacked(), inputs, PROTOCOL)
    # Whatever the machine does: neither nothing nor many times the model.
    assert 0.1 < found.match(whole).ratio < 10
    for other in ({"mode": "train_step"}, {"batch_size": 4}, {"autocast": "bfloat16"}, {"seq_len": 4}):
        with pytest.raises(InputError, match=r"of the two latencies is .*; measure both alike"):
            found.match(measure(Stacked(), inputs, replace(PROTOCOL, **other)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whole: must be a LatencyProfile"):
        found.match(1.0)  # type: ignore[arg-type]


def test_grouped_heads_with_a_cache_and_rotary_angles() -> None:
    transformers: Any = pytest.importorskip("transformers", reason="pip install 'headtune[hf]'")
    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=4
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    found = sum_blocks(model, inputs, PROTOCOL, [f"model.layers.{i}.self_attn" for i in range(3)])
    assert ("model.layers.0", "model.layers.1", "model.layers.2") in [block.paths for block in found.blocks]


def test_values_that_decide_are_not_to_be_had_on_the_meta_device() -> None:
    class Deciding(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) if bool(input.sum() > 0) else input

    with pytest.raises(MeasurementError, match="does not run on the meta device"):
        sum_blocks(nn.Sequential(Deciding(4, 4)), (torch.zeros(1, 4),), PROTOCOL, ["0"])


def test_only_a_forward_pass_has_blocks_by_themselves() -> None:
    protocol = LatencyProtocol(device="cpu", threads=1, mode="train_step")
    with pytest.raises(InputError, match="mode is train_step; a block by itself has a forward pass only"):
        sum_blocks(on_meta(), inputs, protocol, PATHS)


def test_a_block_finds_the_cache_that_it_gets_in_every_pass() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install 'headtune[hf]'")
    with torch.device("meta"):
        model: nn.Module = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4
            )
        ).eval()
    path = "model.layers.0"
    calls = called(model, [f"{path}.self_attn"])
    block, arguments = materialised(model, path, calls[path], PROTOCOL)
    lengths = set[int]()
    attention = block.get_submodule("block.self_attn")

    def note(module: nn.Module, args: Any, kwargs: Any) -> None:
        cache = next(kwargs[name] for name in ("cache", "past_key_values") if name in kwargs)
        lengths.add(cache.get_seq_length())

    attention.register_forward_pre_hook(note, with_kwargs=True)
    profile = measure(block, arguments, PROTOCOL)
    assert (lengths, profile.calls_per_sample) == ({0}, 1)


class Looped(nn.Module):
    """One layer that runs three times, at two lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)])

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layers[0]
        out: Tensor = layer(layer(layer(x))[:, :4])
        return out


def test_a_block_that_runs_several_times_counts_as_often() -> None:
    x = (torch.randn(2, 8, 16),)
    found = sum_blocks(Looped(), x, PROTOCOL, ["layers.0.self_attn"])
    assert [block.paths for block in found.blocks] == [("layers.0", "layers.0"), ("layers.0",)]


class Set(nn.Module):
    """A layer, and a setting that decides on what it costs."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 4, batch_first=True)
        for name, value in settings.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attn(x, x, x)[0]
        return out


def cheap() -> int:
    return 1


def dear() -> int:
    return 2


def scaled(by: int) -> Callable[[], int]:
    return lambda: by


@pytest.mark.parametrize(
    ("one", "other", "unlike"),
    [
        ({"hybrid": False}, {"hybrid": True}, 2),
        ({"reps": [0]}, {"reps": [0, 0]}, 2),
        ({"run": cheap}, {"run": dear}, 2),
        ({"run": scaled(1)}, {"run": scaled(2)}, 2),
        ({"run": scaled(1)}, {"run": scaled(1)}, 1),
        ({"layer_idx": 0}, {"layer_idx": 1}, 1),
    ],
)
def test_blocks_are_alike_where_nothing_that_may_cost_time_differs(
    one: dict[str, object], other: dict[str, object], unlike: int
) -> None:
    model = nn.Sequential(Set(**one), Set(**other))
    assert len(blocks_of(model, (torch.randn(1, 4, 16),), ["0.attn", "1.attn"])) == unlike


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["layer.0.self_attn"], "'layer.0.self_attn' is no module of the model"),
        ([], "no site is named"),
        ("layers.0.self_attn", "paths: must be a list of the sites' paths"),
    ],
)
def test_paths_that_name_no_site_are_refused(paths: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        sum_blocks(on_meta(), inputs, PROTOCOL, paths)
