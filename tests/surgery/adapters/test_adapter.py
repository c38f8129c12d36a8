"""What every adapter must hold to. A new adapter is one more case here."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headtune.heads.count import HeadCount
from headtune.nn import HeadedAttention
from headtune.surgery.adapters import Adapter, Handwritten, Headed, InputSized, TorchMHA
from headtune.surgery.original import Original
from headtune.surgery.snapshot import Snapshot

X = torch.randn(5, 2, 24)
Case = tuple[Adapter, nn.Module, tuple[torch.Tensor, ...]]
CASES: dict[str, Callable[[SimpleNamespace], Case]] = {
    "torch_mha": lambda zoo: (TorchMHA(), nn.MultiheadAttention(24, 4), (X, X, X)),
    "headed": lambda zoo: (Headed(), HeadedAttention(24, 4), (X, X, X)),
    "handwritten": lambda zoo: (Handwritten(), zoo.LucidAttention(4, 6), (X,)),
    "input_sized": lambda zoo: (InputSized(), zoo.build("vision").layers[0]["attn"], (X,)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, zoo: SimpleNamespace) -> Case:
    return CASES[request.param](zoo)


def test_reheading_computes_the_counts_with_the_tensors_as_they_are(case: Case) -> None:
    adapter, model, inputs = case
    (site,) = Original(model, inputs).sites
    wanted = HeadCount(8, 8, 3)
    assert adapter.why_not_rehead(model, site, wanted) is None
    parameters = dict(model.named_parameters())
    adapter.rehead(model, site, wanted)
    adapter.settle(model)
    (after,) = Original(model, inputs).sites
    assert after.present == wanted
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())


def test_resizing_computes_the_counts_without_writing_into_old_tensors(case: Case) -> None:
    adapter, model, inputs = case
    original = Original(model, inputs)
    (site,) = original.sites
    wanted = HeadCount(3, 3, 6)
    values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    old = dict(model.named_parameters())
    projections = original.projections("")
    assert adapter.why_not_resize(model, site, projections, wanted) is None
    edited = adapter.resize(model, site, projections, wanted)
    adapter.settle(edited)
    (after,) = Original(edited, inputs).sites
    assert after.present == wanted
    assert all(torch.equal(parameter, values[name]) for name, parameter in old.items())


def test_an_edit_can_be_undone(case: Case) -> None:
    adapter, model, inputs = case
    original = Original(model, inputs)
    (site,) = original.sites
    wrapped = nn.ModuleList([model])
    snapshot = Snapshot.of(wrapped)
    before = model(*inputs)
    adapter.resize(model, site, original.projections(""), HeadCount(3, 3, 6))
    snapshot.restore()
    adapter.rehead(model, site, HeadCount(2, 2, 12))
    snapshot.restore()
    after = model(*inputs)
    pairs = zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]
    assert all(torch.equal(one, other) for one, other in pairs)


def test_the_kv_heads_are_those_of_the_tensors(case: Case) -> None:
    adapter, model, inputs = case
    call = Original(model, inputs).survey.blocks[""].call
    assert adapter.num_kv_heads(model, "", call) == 4
