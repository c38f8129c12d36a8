"""A right family is proven, a refusing one has its sentences, and a planted wrong adapter cannot pass."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import Case, conformance
from headtune.surgery.adapters import Handwritten
from headtune.surgery.conforming import proofs

COLUMNS = ["found", "re-head", "resize", "prune", "merge", "save/load"]
X = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    def __init__(self, heads: int = 4, kv_heads: int = 4, head_dim: int = 6) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim, self.eps = heads, kv_heads, head_dim, 1e-5
        self.q = nn.Linear(24, heads * head_dim)
        self.k, self.v = (nn.Linear(24, kv_heads * head_dim) for _ in range(2))
        self.out = nn.Linear(heads * head_dim, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return F.layer_norm(self.out(y.transpose(1, 2).flatten(2)), (24,), eps=self.eps)


def case(cls: type[nn.Module] = Attention, **more: Any) -> Case:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(cls())

    def rebuild(plan: HeadPlan) -> nn.Module:
        return nn.Sequential(cls(*plan["0"]))

    return Case(name="any", build=build, inputs=(X,), **{"rebuild": rebuild} | more)


def test_everything_is_proven(tmp_path: Path) -> None:
    found = conformance(case(), tmp_path)
    assert {column: one.words for column, one in found.items()} == {
        "found": "1 self of 4x6",
        "re-head": "computes 3x8, bitwise as if built so, weights untouched",
        "resize": "computes 5x6 with 594 parameters more",
        "prune": "1 self of 3x6 left, equal to the gated model in float64",
        "merge": "computes 4/2x6, equal to the model with each group's mean in every head",
        "save/load": "pruned, merged, re-headed, loaded bitwise",
    }
    assert all(one.proven for one in found.values())


def test_without_a_rebuild_only_the_counts_are(tmp_path: Path) -> None:
    assert conformance(case(rebuild=None), tmp_path)["re-head"].words == "computes 3x8, weights untouched"


def test_groups_stay_groups(tmp_path: Path) -> None:
    class Grouped(Attention):
        def __init__(self, heads: int = 4, kv_heads: int = 2, head_dim: int = 6) -> None:
            super().__init__(heads, kv_heads, head_dim)

    found = conformance(case(Grouped), tmp_path)
    assert found["prune"].words == "1 self of 2/1x6 left, equal to the gated model in float64"
    assert found["merge"].words.startswith("computes 4/1x6, ")


def test_one_key_value_head_cannot_be_fewer(tmp_path: Path) -> None:
    class Single(Attention):
        def __init__(self, heads: int = 4, kv_heads: int = 1, head_dim: int = 6) -> None:
            super().__init__(heads, kv_heads, head_dim)

    assert conformance(case(Single), tmp_path)["merge"].words == "nothing to merge: one key/value head"


def test_refusals_are_sentences(tmp_path: Path) -> None:
    """Heads by number in forward, fewer of which are a mystery; only seeing and saving them is possible."""

    class Stubborn(Attention):
        def __init__(self, *_: int) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.utils.parametrizations.weight_norm(w) for w in (self.q, self.k, self.v))
            del self.num_heads, self.num_kv_heads, self.head_dim

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (w(x).unflatten(-1, (4, 6)).transpose(1, 2) for w in (self.q, self.k, self.v))
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    found = conformance(case(Stubborn), tmp_path)
    assert [column for column, one in found.items() if one.proven] == ["found", "save/load"]
    computed = "a weight that is computed in the forward pass; remove weight_norm, quantisation or the like first"
    unnamed = (
        "0: Stubborn has no attribute that holds its 4 heads or their 6 features; store them, as in self.num_heads, "
        "and let forward read them there"
    )
    assert {column: one.words for column, one in found.items() if not one.proven} == {
        "re-head": unnamed,
        "resize": unnamed,
        "prune": f"0: its queries come from {computed}",
        "merge": f"0: its queries come from {computed}",
    }


def test_what_cannot_be_seen_is_not_tried(tmp_path: Path) -> None:
    found = conformance(Case(name="mlp", build=lambda: nn.Linear(24, 24), inputs=(X,)), tmp_path)
    assert list(found) == ["found"]
    assert found["found"].words.startswith("no attention was seen in the forward pass of Linear")


class TestAPlantedWrongAdapterRaises:
    def plant(self, monkeypatch: pytest.MonkeyPatch, spoil: Any) -> None:
        right = Handwritten.rehead

        def wrong(self: Handwritten, model: nn.Module, site: Any, wanted: HeadCount) -> None:
            right(self, model, site, wanted)
            spoil(model.get_submodule(site.path))

        monkeypatch.setattr(Handwritten, "rehead", wrong)

    def test_scrambled_rows(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.plant(monkeypatch, lambda block: setattr(block.q, "weight", nn.Parameter(block.q.weight.flip(0))))
        with pytest.raises(AssertionError, match=r"0\.q does not make what it did before"):
            conformance(case(), tmp_path)

    def test_another_attribute(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.plant(monkeypatch, lambda block: setattr(block, "eps", 0.1))
        with pytest.raises(AssertionError, match="any re-headed to 0=3/3x8: what it returns is off by"):
            conformance(case(), tmp_path)

    def test_other_weights(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.plant(monkeypatch, lambda block: setattr(block.out, "bias", nn.Parameter(block.out.bias + 1)))
        with pytest.raises(AssertionError, match=r"\['0\.out'\] hold other values than before"):
            conformance(case(), tmp_path)


class TestAPlantedWrongOperationRaises:
    """Operations verify themselves; these would have got past that."""

    def test_other_heads_pruned(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        right = proofs.prune
        monkeypatch.setattr(
            proofs, "prune", lambda model, kept, inputs: right(model, {path: [0, 1, 2] for path in kept}, inputs)
        )
        with pytest.raises(AssertionError, match=r"any pruned: what .* off by"):
            conformance(case(), tmp_path)

    def test_nothing_merged(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(proofs, "merge_kv", lambda model, plan, inputs: model)
        with pytest.raises(AssertionError, match="where the plan says"):
            conformance(case(), tmp_path)

    def test_nothing_resized(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        right = proofs.apply
        plans: list[HeadPlan] = []

        def wrong(model: nn.Module, plan: HeadPlan, inputs: Any) -> nn.Module:
            plans.append(plan)
            return right(model, plan, inputs) if len(plans) == 1 else model

        monkeypatch.setattr(proofs, "apply", wrong)
        with pytest.raises(AssertionError, match="where the plan says"):
            conformance(case(), tmp_path)

    def test_another_model_loaded(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def wrong(folder: Path, build: Any) -> nn.Module:
            model = right(folder, build)
            nn.init.zeros_(model[0].v.weight)
            return model

        right = proofs.load
        monkeypatch.setattr(proofs, "load", wrong)
        with pytest.raises(AssertionError, match="any, pruned: loaded is not what was saved"):
            conformance(case(), tmp_path)


def test_what_is_no_case_is_an_error_and_no_finding(tmp_path: Path) -> None:
    wrong: Any = 5
    with pytest.raises(SurgeryError) as caught:
        conformance(wrong, wrong)
    assert caught.value.problems == ("case: must be a Case (got 5)", "folder: must be a path (got 5)")
    with pytest.raises(SurgeryError, match="build of empty: must be a function that returns a"):
        conformance(Case(name="empty", build=lambda: wrong, inputs=(X,)), tmp_path)
