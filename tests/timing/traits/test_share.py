"""The share of attention: planted times are found, and nothing of the model changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import InputError
from headtune.timing import LatencyProtocol
from headtune.timing.traits import attention_share

Inputs = Callable[[int, int | None], tuple[Tensor]]
Make = Callable[..., nn.Module]


class Planted(nn.Module):
    """Two runs of one slow site between other work; notes what each pass put out."""

    def __init__(self, site: nn.Module, rest: nn.Module) -> None:
        super().__init__()
        self.site = site
        self.rest = rest
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D)."""
        made: Tensor = self.site(self.rest(2 * self.site(x)))
        self.outputs.append(made)
        return made


@pytest.mark.parametrize(("site_ms", "rest_ms"), [(0.6, 1.4), (1.5, 0.5)])
def test_a_planted_share_is_found(
    site_ms: float, rest_ms: float, busy_module: Make, protocol: LatencyProtocol, inputs: Inputs
) -> None:
    model = Planted(busy_module(site_ms / 2), busy_module(rest_ms))  # the site runs twice
    found = attention_share(model, inputs, protocol, ["site"])
    assert found.value == pytest.approx(site_ms / (site_ms + rest_ms), abs=5e-3)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert not found.ordinary


def test_passes_without_attention_put_out_what_whole_ones_do(
    busy_module: Make, protocol: LatencyProtocol, inputs: Inputs
) -> None:
    noted: list[Tensor] = []

    class Noting(Planted):
        def forward(self, x: Tensor) -> Tensor:
            made = super().forward(x)
            noted.append(made.clone())
            return made

    attention_share(Noting(busy_module(0.1), busy_module(0.1)), inputs, protocol, ["site"])
    x = inputs(4, None)[0]
    assert len(noted) > 20
    assert all(torch.equal(made, 2 * (x + 1) + 2) for made in noted)


def test_what_attention_returned_has_the_type_that_it_is_timed_in(protocol: LatencyProtocol) -> None:
    noted: list[torch.dtype] = []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.site = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.site(x)
            noted.append(made.dtype)
            return made

    x = torch.ones(4, 2)
    attention_share(Noting(), (x,), replace(protocol, autocast="bfloat16"), ["site"])
    assert noted.count(torch.float32) <= 4 < noted.count(torch.bfloat16)  # first passes are not under autocast
    noted.clear()
    attention_share(Noting(), (x,), replace(protocol, dtype="bfloat16"), ["site"])
    assert set(noted) == {torch.bfloat16}


def test_the_model_is_as_it_was(busy_module: Make, protocol: LatencyProtocol, inputs: Inputs) -> None:
    model = Planted(busy_module(0.1), busy_module(0.1)).train()
    model.site.__dict__["forward"] = model.site.forward  # as libraries wrap modules
    before = dict(vars(model.site))
    attention_share(model, inputs, protocol, ["site"])
    assert model.training
    assert model.site.training
    assert vars(model.site) == before
    assert "forward" not in vars(model.rest)
    assert model.outputs == []


def test_fused_encoder_layers_are_taken_apart_on_the_ordinary_path(protocol: LatencyProtocol) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    paths = ["layers.0.self_attn", "layers.1.self_attn"]
    found = attention_share(model, (torch.randn(2, 5, 16),), protocol, paths)
    assert found.ordinary
    assert 0 < found.value < 1
    assert torch.backends.mha.get_fastpath_enabled()
    assert not any("forward" in vars(module) for module in model.modules())


def test_modules_that_project_outputs_count_too(busy_module: Make, protocol: LatencyProtocol, inputs: Inputs) -> None:
    model = Planted(busy_module(0.3), busy_module(0.8))
    model.add_module("idle", nn.Linear(2, 2))
    found = attention_share(model, inputs, protocol, ["site"], outputs=["rest", "idle"])
    assert found.value == pytest.approx(1, abs=5e-3)


def test_paths_that_are_none(busy_module: Make, protocol: LatencyProtocol, inputs: Inputs) -> None:
    model = Planted(busy_module(0.1), busy_module(0.1))
    model.add_module("idle", nn.Linear(2, 2))
    with pytest.raises(InputError, match="paths: 'encoder' is no module of the model; take the paths of its sites"):
        attention_share(model, inputs, protocol, ["site", "encoder"])
    with pytest.raises(InputError, match="idle did not run in the pass; name the sites that do"):
        attention_share(model, inputs, protocol, ["site", "idle"])
    with pytest.raises(InputError, match="no site is named"):
        attention_share(model, inputs, protocol, [])


class Popping(nn.Module):
    """A model that empties the list that its attention returns."""

    def __init__(self) -> None:
        super().__init__()
        self.site, self.rest = Listing(), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rest(self.site(x).pop())
        return out


class Listing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.linear(x)]


def test_a_model_may_empty_what_its_attention_returned(protocol: LatencyProtocol, inputs: Inputs) -> None:
    assert 0 <= attention_share(Popping(), inputs, protocol, ["site"]).value <= 1


def test_no_share_is_below_nothing(busy_module: Make, protocol: LatencyProtocol, inputs: Inputs) -> None:
    found = attention_share(Planted(nn.Identity(), busy_module(0.3)), inputs, protocol, ["site"])
    assert 0 <= found.interval[0] <= found.value <= found.interval[1]
