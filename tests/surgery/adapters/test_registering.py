"""An adapter of one's own, for a module whose count has a name that nobody else would guess."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery import Case, Handwritten, conformance, find_sites, register_adapter
from headtune.surgery.adapters import adapter_for, adapters

X = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(0))


class Choir(nn.Module):
    def __init__(self, voices: int = 4) -> None:
        super().__init__()
        self.voices = voices
        self.q, self.k, self.v, self.out = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.voices, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        made: Tensor = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return made


class ChoirAdapter(Handwritten):
    def matches(self, module: nn.Module) -> bool:
        return isinstance(module, Choir)

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        return None if wanted.num_kv_heads == wanted.num_heads else "voices cannot share keys"

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        block = model.get_submodule(site.path)
        assert isinstance(block, Choir)
        block.voices = wanted.num_heads


def build(voices: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Choir(voices)


def case() -> Case:
    return Case(name="choir", build=build, inputs=(X,), rebuild=lambda plan: build(plan[""].num_heads))


@pytest.fixture
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtune.surgery.adapters._REGISTERED", [])


@pytest.mark.usefixtures("nothing_registered")
def test_a_registered_adapter_does_what_nobody_else_could(tmp_path: Path) -> None:
    before = conformance(case(), tmp_path / "before")
    assert not before["re-head"].proven
    register_adapter(ChoirAdapter())
    after = conformance(case(), tmp_path / "after")
    assert [name for name, finding in after.items() if not finding.proven] == []
    assert "bitwise as if built so" in after["re-head"].words
    assert "made once and repeated" in after["merge"].words  # its voices cannot share keys


@pytest.mark.usefixtures("nothing_registered")
def test_an_adapter_that_sets_something_else_is_found_out(tmp_path: Path) -> None:
    class Deaf(ChoirAdapter):
        def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
            """Nothing."""

    register_adapter(Deaf())
    found = conformance(case(), tmp_path / "deaf")["re-head"]
    assert not found.proven
    assert "the plan asks for" in found.words


@pytest.mark.usefixtures("nothing_registered")
def test_the_last_one_registered_comes_first() -> None:
    first, last = ChoirAdapter(), ChoirAdapter()
    register_adapter(first)
    register_adapter(last)
    assert adapters()[:2] == (last, first)
    assert adapter_for(Choir()) is last
    assert type(adapter_for(nn.MultiheadAttention(4, 2))).__name__ == "TorchMHA"
    assert HeadPlan.of({site.path: site.present for site in find_sites(Choir(), (X,))})[""] == HeadCount(4, 4, 6)
