from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.nn import HeadedAttention
from headtune.surgery.outputs import Outputs, difference, outputs, returned_difference
from headtune.surgery.probe import ForwardFailed


def put_out(*returned: Tensor | None, dtype: torch.dtype = torch.float32, **projected: Tensor) -> Outputs:
    return Outputs(returned=returned, projected={name: (one,) for name, one in projected.items()}, dtype=dtype)


def test_everything_that_a_model_returns_is_put_out_in_order() -> None:
    @dataclass
    class Result:
        scores: Tensor
        names: list[str]

    class Nested(nn.Module):
        def forward(self, x: Tensor) -> object:
            return {"a": x, "b": [x + 1, (x + 2, {"c": x + 3}), x.long(), None, "text"], "d": Result(x + 4, ["n"])}

    x = torch.zeros(2)
    returned = outputs(Nested(), (x,)).returned
    assert [float(one[0]) for one in returned if one is not None] == [0, 1, 2, 3, 4]


def test_tensors_are_found_in_any_object() -> None:
    class Slotted:
        __slots__ = ("inner",)

    class Answer:
        def __init__(self, x: Tensor) -> None:
            self.logits, self.slotted, self.me = x, Slotted(), self
            self.slotted.inner = [x + 1]

    class Answering(nn.Module):
        def forward(self, x: Tensor) -> object:
            return Answer(x)

    returned = outputs(Answering(), (torch.zeros(2),)).returned
    assert [float(one[0]) for one in returned if one is not None] == [0, 1]


def test_what_reads_an_attentions_output_is_put_out_too(zoo: SimpleNamespace) -> None:
    model, (x,) = zoo.build("lucid"), zoo.inputs()
    made: list[Tensor] = []
    model.layers[0]["attn"].to_out[0].register_forward_hook(lambda module, args, output: made.append(output))
    found = outputs(model, (x,)).projected
    assert list(found) == ["layers.0.attn.to_out.0.weight", "layers.1.attn.to_out.0.weight"]
    assert torch.equal(found["layers.0.attn.to_out.0.weight"][0], made[0])


def test_a_projection_that_is_written_into_later_is_put_out_as_it_was() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = HeadedAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.attn(x, x, x, need_weights=False)[0].mul_(0)

    assert bool(outputs(InPlace(), (torch.randn(1, 3, 8),)).projected["attn.out_proj.weight"][0].any())


def test_attention_weights_are_not_compared() -> None:
    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = HeadedAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> list[Tensor]:
            y, w = self.attn(x, x, x, average_attn_weights=False)
            return [y, w, w.mean(1), w.mean(1) * 2, w[:, 0], torch.stack([w.mean(1), w.sum(1)]), x.softmax(-1), y[0]]

    returned = outputs(Maps(), (torch.randn(2, 3, 8),)).returned
    assert [one is None for one in returned] == [False, True, True, True, True, True, False, False]


def test_a_model_is_run_in_eval_mode_and_left_as_it_was() -> None:
    model = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(4)).train()
    x = torch.randn(8, 4)
    (returned,) = outputs(model, (x,)).returned
    assert returned is not None
    torch.testing.assert_close(returned, x, rtol=0, atol=1e-4)
    assert model[1].num_batches_tracked == 0
    assert all(module.training for module in model.modules())


def test_padded_positions_take_the_ordinary_path() -> None:
    """PyTorch's fused encoder returns zeros there, which a pruned one could not."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    inputs = {"src": torch.randn(1, 4, 8), "src_key_padding_mask": torch.tensor([[False, False, True, True]])}
    (returned,) = outputs(encoder, inputs).returned
    assert returned is not None
    assert bool(returned[0, 3].any())


def test_a_failing_forward_is_reported_with_its_place() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no")

    with pytest.raises(ForwardFailed) as caught:
        outputs(nn.Sequential(Failing()), (torch.ones(1),))
    assert caught.value.path == "0"


def in_bfloat16(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return torch.autocast("cpu", torch.bfloat16)(lambda self, x: forward(self, x).float())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_type_is_the_one_that_was_computed_in(dtype: torch.dtype) -> None:
    assert outputs(nn.Linear(3, 3).to(dtype), (torch.ones(1, 3, dtype=dtype),)).dtype == dtype
    autocast = type("Autocast", (nn.Linear,), {"forward": in_bfloat16(nn.Linear.forward)})(3, 3)
    found = outputs(autocast, (torch.ones(1, 3),))
    assert found.dtype == torch.bfloat16
    assert found.returned[0] is not None
    assert found.returned[0].dtype == torch.float32


X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


def test_equal_outputs_do_not_differ() -> None:
    assert difference(put_out(X, w=X), put_out(X.clone(), w=X.clone())) is None


@pytest.mark.parametrize(
    ("dtype", "rounding"),
    [(torch.float64, 1e-11), (torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)],
)
def test_rounding_is_allowed_as_the_type_has_it(dtype: torch.dtype, rounding: float) -> None:
    x = X.double()
    for scale in (1e-6, 0.5, 2):
        off = x.clone()
        off[1, 2, 3] += scale * rounding * float(x.abs().max())
        made, expected = put_out(off, dtype=dtype), put_out(x, dtype=torch.float64)
        assert (difference(made, expected) is None) is (scale < 1)
        assert (difference(put_out(x, w=off, dtype=dtype), put_out(x, w=x)) is None) is (
            scale < 1 or dtype == torch.float64
        )


def test_one_value_that_is_off_is_found_and_named() -> None:
    off = X.clone()
    off[0, 0, 0] += 0.5
    assert difference(put_out(X, off), put_out(X, X)) == "what it returns is off by 0.5 from what it should be"
    assert difference(put_out(X, w=off), put_out(X, w=X)) == "what w puts out is off by 0.5 from what it should be"


def test_small_values_are_compared_by_their_own_size() -> None:
    tiny = X * 0.01
    assert difference(put_out(tiny * 1.001), put_out(tiny)) is not None
    zero = torch.zeros(3)
    assert difference(put_out(zero + 1e-8), put_out(zero)) is None
    assert difference(put_out(zero + 1e-6), put_out(zero)) is not None


def test_infinities_and_nans_must_be_the_same_and_hide_nothing() -> None:
    endless, blank = X.clone(), X.clone()
    endless[0, 0, 0], blank[0, 0, 0] = float("inf"), float("nan")
    for one in (endless, -endless, blank):
        off = one.clone()
        off[1, 1, 1] += 0.1
        assert difference(put_out(one), put_out(one.clone())) is None
        assert difference(put_out(off), put_out(one)) is not None
        assert difference(put_out(one), put_out(X)) is not None
        assert difference(put_out(X), put_out(one)) is not None
    assert difference(put_out(endless), put_out(blank)) is not None


def test_what_is_nowhere_finite_proves_nothing() -> None:
    nans = torch.full((2, 3), float("nan"))
    assert (
        difference(put_out(nans), put_out(nans))
        == "what it returns is nowhere finite, so that nothing can be compared: mend its weights or inputs first"
    )
    assert (
        difference(put_out(X, w=nans), put_out(X, w=nans))
        == "what w puts out is nowhere finite, so that nothing can be compared: mend its weights first"
    )
    assert difference(put_out(X, nans), put_out(X, nans)) is None  # a loss without labels


def test_one_large_feature_row_or_mask_hides_nothing() -> None:
    for place in (slice(None), 0), (slice(None), slice(None), 1), (1, 1, 2):
        large = X.clone()
        large[place] = -1e9
        off = large.clone()
        off[0, 2, 3] += 0.05
        for dtype in (torch.float32, torch.float16):
            assert difference(put_out(large, dtype=dtype), put_out(large.clone(), dtype=dtype)) is None
            assert difference(put_out(off, dtype=dtype), put_out(large, dtype=dtype)) is not None
        rounded = large * (1 + 1e-6 * X)
        assert difference(put_out(rounded), put_out(large)) is None


def test_a_projection_that_was_not_made_is_found() -> None:
    found = difference(put_out(X), put_out(X, w=X))
    assert found == "w reads the heads 0 times as  where it should do so 1 times as (2, 3, 4), or otherwise"


def test_tensors_whose_shape_depends_on_the_heads_are_left_out() -> None:
    cache = torch.randn(2, 4, 3)
    assert difference(put_out(X, cache[:, :2]), put_out(X, cache)) is None


def test_something_must_be_comparable() -> None:
    nothing = "it returns no tensors that can be compared with what they should be"
    assert difference(put_out(None, X[:1]), put_out(None, X)) == nothing
    assert difference(put_out(), put_out()) == nothing
    assert difference(put_out(w=X), put_out(w=X)) is None
    assert difference(put_out(X), put_out(X, X)) == "it returns 1 tensors where it should return 2"


def test_what_was_returned_is_compared_in_order_however_nested() -> None:
    a, b = torch.randn(3, 4), torch.randn(2)
    assert returned_difference([a, b], {"x": a.clone(), "y": (b.clone(), 3, "text")}) is None
    assert returned_difference((a,), (a * (1 + 1e-6),)) is None  # rounding of float32
    moved = returned_difference((a, b), (a, b + 0.5))
    assert moved == "what it returns is off by 0.5 from what it should be"
    assert returned_difference((a,), (a, b)) == "what it returns is (3, 4) where it should be (3, 4), (2,)"
    assert returned_difference("text", (b,)) == "what it returns is nothing where it should be (2,)"
    assert returned_difference((), ()) is None
