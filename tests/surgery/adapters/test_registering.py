"""An adapter of one's own, for a module whose count has a name that nobody else would guess."""

import doctest
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery import Adapter, Case, Handwritten, apply, conformance, find_sites, prune, register_adapter
from headtune.surgery.adapters import adapter_for, adapters
from headtune.surgery.adapters.registered import MEMBERS, Registered

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
    assert adapters()[:2] == (Registered(last), Registered(first))
    assert adapter_for(Choir()) == Registered(last) != Registered(first)
    assert type(adapter_for(nn.MultiheadAttention(4, 2))).__name__ == "TorchMHA"
    assert HeadPlan.of({site.path: site.present for site in find_sites(Choir(), (X,))})[""] == HeadCount(4, 4, 6)


class Stubs(Adapter):
    def matches(self, module: nn.Module) -> bool:
        return False


@pytest.mark.usefixtures("nothing_registered")
def test_what_is_no_whole_adapter_is_refused_when_it_is_registered() -> None:
    assert len(MEMBERS) == 8
    for wrong, lacking in ((None, MEMBERS), (object(), MEMBERS), (Stubs(), [m for m in MEMBERS if m != "matches"])):
        with pytest.raises(SurgeryError, match=f"{type(wrong).__name__} has no {', '.join(lacking)}, which every"):
            register_adapter(wrong)  # type: ignore[arg-type]
    with pytest.raises(SurgeryError, match=r"is a class: give an instance, ChoirAdapter\(\)"):
        register_adapter(ChoirAdapter)  # type: ignore[arg-type]
    assert [type(adapter).__name__ for adapter in adapters()] == ["Headed", "TorchMHA", "HuggingFace"]


@pytest.mark.usefixtures("nothing_registered")
@pytest.mark.parametrize("method", [name for name in MEMBERS if name != "reads_projections"])
@pytest.mark.parametrize("copy", [True, False])
def test_an_adapter_that_raises_is_named_and_the_model_put_back(
    monkeypatch: pytest.MonkeyPatch, method: str, copy: bool
) -> None:
    def fail(*args: object) -> None:
        raise KeyError("voices")

    model = nn.Sequential(build())
    wider = HeadPlan.of({"0": HeadCount(5, 5, 6) if "resize" in method else HeadCount(2, 2, 12)})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    monkeypatch.setattr(ChoirAdapter, method, fail, raising=False)
    register_adapter(ChoirAdapter())
    with pytest.raises(
        SurgeryError, match=rf"the adapter's ChoirAdapter\.{method} raised KeyError: 'voices' \(.*, in fail\)"
    ):
        apply(model, wider, (X,), copy=copy)
    assert model[0].voices == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.usefixtures("nothing_registered")
def test_an_adapter_that_returns_something_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    register_adapter(ChoirAdapter())
    model, wider = nn.Sequential(build()), HeadPlan.of({"0": HeadCount(5, 5, 6)})
    wrong: tuple[tuple[str, Any, str], ...] = (
        ("resize", None, "must be the edited model, a torch.nn.Module (got None)"),
        ("why_not_resize", False, "must be text (got False)"),
        ("num_kv_heads", 0, "must be at least 1 (got 0)"),
        ("matches", None, "must be True or False (got None)"),
    )
    for name, answer, sentence in wrong:
        monkeypatch.setattr(ChoirAdapter, name, lambda *args, answer=answer: answer, raising=False)
        with pytest.raises(SurgeryError) as caught:
            apply(model, wider, (X,))
        assert str(caught.value).endswith(f": what it returns: {sentence}")


@pytest.mark.usefixtures("nothing_registered")
def test_the_example_of_an_adapter_works() -> None:
    names = {"Handwritten": Handwritten, "Choir": Choir, "register_adapter": register_adapter, "nn": nn}
    names |= {"AttentionSite": AttentionSite, "HeadCount": HeadCount}
    example = doctest.DocTestParser().get_doctest(Handwritten.__doc__ or "", names, "Handwritten", None, None)
    assert doctest.DocTestRunner().run(example, clear_globs=False) == doctest.TestResults(failed=0, attempted=2)
    assert apply(Choir(), HeadPlan.of({"": HeadCount(2, 2, 12)}), (X,)).voices == 2
    assert find_sites(prune(nn.Sequential(Choir()), {"0": [0, 2]}, (X,)), (X,))[0].present == HeadCount(2, 2, 6)
