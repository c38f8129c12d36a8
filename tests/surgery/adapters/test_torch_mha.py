import warnings

import pytest
import torch
from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.nn import HeadedAttention
from headtune.surgery.adapters import TorchMHA
from headtune.surgery.original import Original
from headtune.surgery.probe import Projections

X = torch.randn(5, 2, 24)


class OwnForward(nn.MultiheadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x, need_weights=False)[0]


class Renamed(nn.MultiheadAttention):
    """As FSDP2 renames classes: same code, another name."""


def reason(model: nn.Module, path: str = "") -> str | None:
    inputs = (X,) if isinstance(model, OwnForward | nn.Sequential) else (X, X, X)
    site = Original(model, inputs).survey.blocks[path].site
    return TorchMHA().why_not_resize(model, site, Projections(), HeadCount(3, 3, 6))


def test_subclasses_match_by_class_not_by_name() -> None:
    assert [TorchMHA().matches(m) for m in (Renamed(24, 4), OwnForward(24, 4), HeadedAttention(24, 4))] == [
        True,
        True,
        False,
    ]
    assert reason(Renamed(24, 4)) is None


def test_a_subclass_with_its_own_forward_can_be_reheaded_but_not_replaced() -> None:
    model = OwnForward(24, 4)
    (site,) = Original(model, (X,)).sites
    assert TorchMHA().why_not_rehead(model, site, HeadCount(2, 2, 12)) is None
    assert reason(model) == (
        "OwnForward has a forward of its own, which a replacement would lose; "
        "use nn.MultiheadAttention itself, or headtune.nn.HeadedAttention"
    )


def test_a_subclass_with_parameters_of_its_own_keeps_them() -> None:
    class Gated(nn.MultiheadAttention):
        def __init__(self) -> None:
            super().__init__(24, 4, add_bias_kv=True)
            self.gate = nn.Parameter(torch.ones(1))

    assert reason(Gated()) == "Gated holds gate too, which a replacement would lose; keep it outside"


def test_parametrized_and_tied_weights_are_refused() -> None:
    model = nn.MultiheadAttention(24, 4)
    nn.utils.parametrizations.weight_norm(model.out_proj)
    assert reason(model) == (
        "its weights are parametrized; call torch.nn.utils.parametrize.remove_parametrizations first"
    )
    pair = nn.Sequential(OwnForward(24, 4), OwnForward(24, 4))
    for block in pair:
        type(block).forward = OwnForward.forward
    first, second = nn.MultiheadAttention(24, 4), nn.MultiheadAttention(24, 4)
    second.in_proj_weight = first.in_proj_weight

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, *x: Tensor) -> Tensor:
            return self.second(*(self.first(*x)[0],) * 3)[0]

    assert reason(Both(), "first") == (
        "first.in_proj_weight is also second.in_proj_weight: untie them first, or change neither"
    )


def test_head_dim_is_set_for_whoever_reads_it() -> None:
    model = nn.MultiheadAttention(24, 4)
    (site,) = Original(model, (X, X, X)).sites
    TorchMHA().rehead(model, site, HeadCount(8, 8, 3))
    assert (model.num_heads, model.head_dim) == (8, 3)


@pytest.mark.parametrize(
    ("heads", "replaced", "kept"),
    [((4, 2), False, True), ((4, 3), False, False), ((1, 4), False, False), ((4, 4), True, False)],
)
def test_nested_tensors_stay_on_only_where_every_layer_takes_them(
    heads: tuple[int, int], replaced: bool, kept: bool
) -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 32, batch_first=True), 2)
    for layer, count in zip(encoder.layers, heads, strict=True):
        layer.self_attn.num_heads = count
    if replaced:
        encoder.layers[1].self_attn = HeadedAttention(24, 4, batch_first=True)
    TorchMHA().settle(nn.Sequential(encoder))
    assert encoder.use_nested_tensor is kept


def test_nested_tensors_are_never_turned_on() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 1, 32, batch_first=True), 1)
    encoder.layers[0].self_attn.num_heads = 4
    TorchMHA().settle(encoder)
    assert encoder.use_nested_tensor is False
