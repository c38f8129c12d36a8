"""Redundancy against slow second computations, and on models whose heads are planted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import headtune
from headtune.diagnose import Redundancy, redundancy
from headtune.errors import InputError, SurgeryError, TaskError
from headtune.surgery import captured

Make = Callable[[str], nn.Module]
NAMES = ["fused", "interleaved", "encoder"]


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    value: Tensor = model(batch).pow(3).mean()
    return value


def slow_maps(calls: list[Tensor], one: int, other: int) -> float:
    """Mean cosine of two heads' attention, a query at a time."""
    rows = [
        (maps[b, one, t], maps[b, other, t]) for maps in calls for b in range(len(maps)) for t in range(maps.shape[2])
    ]
    return sum(float(left @ right / left.norm() / right.norm()) for left, right in rows) / len(rows)


def slow_outputs(left: Tensor, right: Tensor) -> float:
    """Linear CKA of (N, D) outputs by the Gram matrices of their N positions."""
    centring = torch.eye(len(left), dtype=torch.float64) - 1 / len(left)
    one, other = (centring @ (x @ x.T) @ centring for x in (left, right))
    return float((one * other).sum() / one.norm() / other.norm())


@pytest.mark.parametrize("name", [*NAMES, "grouped"])
def test_similarities_are_those_of_a_slow_computation(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name).eval()
    found = redundancy(model, batches, loss)
    seen = [captured(model, (batch,)) for batch in batches]
    assert list(found) == list(seen[0])
    for path, one in found.items():
        maps = [call.maps for batch in seen for call in batch[path]]
        outputs_NHD = torch.cat([call.outputs.flatten(0, 1) for batch in seen for call in batch[path]])
        assert one.positions == len(outputs_NHD) == 45
        for first in range(4):
            for second in range(first):
                expected = slow_maps(maps, first, second), slow_outputs(outputs_NHD[:, first], outputs_NHD[:, second])
                assert (float(one.maps[first, second]), float(one.outputs[first, second])) == pytest.approx(expected)
        assert torch.equal(one.similarity, torch.minimum(one.maps, one.outputs))
        torch.testing.assert_close(one.similarity, one.similarity.T)
        assert one.similarity.diagonal().eq(1).all()


def copy_head(model: nn.Module, name: str, one: int, other: int) -> None:
    """Make a head of every layer attend and speak as another does."""
    with torch.no_grad():
        for layer in model.layers:  # type: ignore[union-attr]
            weight, bias = (
                (layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias)  # type: ignore[union-attr]
                if name == "encoder"
                else (layer.qkv.weight, layer.qkv.bias)  # type: ignore[union-attr]
            )
            for tensor in (weight, bias):
                parts = tensor.unflatten(0, (4, 3, 4) if name == "interleaved" else (3, 4, 4))
                heads = parts if name == "interleaved" else parts.transpose(0, 1)
                heads[other] = heads[one]


@pytest.mark.parametrize("name", NAMES)
def test_a_copied_head_is_found_in_every_layer_and_no_other(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name)
    assert all(one.clusters == () and one.spare == 0 for one in redundancy(model, batches, loss).values())
    copy_head(model, name, 1, 3)
    for one in redundancy(model, batches, loss).values():
        assert one.clusters == ((1, 3),)
        assert one.spare == 1
        torch.testing.assert_close(one.similarity[1, 3], torch.ones((), dtype=torch.float64))


class Placed(nn.Module):
    """Attention whose heads look where a bias says, in the order of its first dimension."""

    def __init__(self, bias_HTT: Tensor, *, values: Tensor | None = None, causal: bool = False) -> None:
        super().__init__()
        heads = len(bias_HTT)
        self.num_heads, self.causal = heads, causal
        self.q, self.k, self.v, self.out = (nn.Linear(4 * heads, 4 * heads, bias=False) for _ in range(4))
        if values is not None:
            self.v.weight = nn.Parameter(values)
        self.bias_HTT: Tensor
        self.register_buffer("bias_HTT", bias_HTT)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        length = x.shape[1]
        blocked = torch.ones(length, length, dtype=torch.bool).triu(1) & self.causal
        bias_HTT = self.bias_HTT[:, :length, :length].masked_fill(blocked, float("-inf"))
        return self.out(F.scaled_dot_product_attention(0 * q, k, v, attn_mask=bias_HTT).transpose(1, 2).flatten(2))


LENGTH = 6
ITSELF = 20.0 * torch.eye(LENGTH)
BEFORE = 20.0 * torch.eye(LENGTH).roll(-1, 1)
EVENLY = torch.zeros(LENGTH, LENGTH)
AHEAD = 20.0 * torch.eye(LENGTH).roll(2, 1) + 19.0 * torch.eye(LENGTH).roll(3, 1)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_look_somewhere_whatever_they_read_are_named(causal: bool) -> None:
    torch.manual_seed(0)
    last = AHEAD if not causal else 20.0 * torch.eye(LENGTH).roll(-2, 1) + 19.0 * torch.eye(LENGTH).roll(-3, 1)
    model = Placed(torch.stack([ITSELF, BEFORE, EVENLY, last]), causal=causal)
    (found,) = redundancy(model, [(torch.randn(8, LENGTH, 16),)]).values()
    assert found.patterns == ("itself", "previous", "everything", None)
    assert found.positions == 8 * (LENGTH - causal), "the first query of a causal block has no choice"
    assert found.clusters == ()


def test_heads_that_look_alike_and_say_unlike_things_are_not_interchangeable() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, LENGTH, 12)
    same_place = torch.stack([ITSELF, ITSELF, EVENLY])
    (apart,) = redundancy(Placed(same_place, values=torch.eye(12)), [(x,)]).values()
    assert apart.maps[0, 1] == pytest.approx(1)
    assert apart.outputs[0, 1] < 0.1, "independent features: 4 / 384 by chance"
    assert apart.clusters == ()
    values = torch.eye(12)
    values[4:8] = values[:4].flip(0) * 3  # the same features, turned and scaled
    (alike,) = redundancy(Placed(same_place, values=values), [(x,)]).values()
    assert alike.outputs[0, 1] == pytest.approx(1, abs=1e-5)  # float32
    assert alike.clusters == ((0, 1),)


def test_a_head_that_says_the_same_but_for_rounding_is_like_no_other() -> None:
    class Constant(Placed):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(1 + 1e-6 * x)

    torch.manual_seed(0)
    (found,) = redundancy(Constant(torch.stack([EVENLY, EVENLY])), [(torch.randn(4, LENGTH, 8),)]).values()
    assert found.outputs.tolist() == [[1, 0], [0, 1]]


def test_one_head_alone_has_no_cluster() -> None:
    (found,) = redundancy(Placed(EVENLY[None]), [(torch.randn(4, LENGTH, 4),)]).values()
    assert found.similarity.tolist() == [[1.0]]
    assert found.clusters == ()


def test_padding_does_not_count(make: Make) -> None:
    torch.manual_seed(0)
    model = make("encoder")
    x = torch.randn(4, 5, 16, dtype=torch.float64)
    padded = torch.cat([x, torch.randn(4, 2, 16, dtype=torch.float64)], 1)
    padding = torch.zeros(4, 7, dtype=torch.bool)
    padding[:, 5:] = True
    whole = redundancy(model, [{"src": x}])
    found = redundancy(model, [{"src": padded, "src_key_padding_mask": padding}])
    for path, one in whole.items():
        same(found[path], one)


def same(one: Redundancy, other: Redundancy) -> None:
    """Hold two findings to be equal, up to rounding."""
    for name in ("maps", "outputs", "spread", "own", "before"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name))
    assert one.positions == other.positions


def test_batches_enter_by_a_loss_or_by_themselves_together_or_apart(make: Make, batches: list[Tensor]) -> None:
    model = make("fused")
    expected = redundancy(model, batches, loss)
    for found in (
        redundancy(model, [(batch,) for batch in batches]),
        redundancy(model, lambda: iter([{"x": torch.cat(batches)}])),
        redundancy(model, iter(batches), lambda model, x: model(x).sum() + model(2 * x).sum()),
    ):
        for path, one in expected.items():
            same(found[path], one)


def test_the_model_and_its_modes_are_left_as_they_were(make: Make, batches: list[Tensor]) -> None:
    model = make("encoder").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.inference_mode():
        redundancy(model, batches, loss)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_some_blocks_only(make: Make, batches: list[Tensor]) -> None:
    model = make("grouped")
    found = redundancy(model, batches, loss, paths=["layers.1"])
    assert list(found) == ["layers.1"]
    same(found["layers.1"], redundancy(model, batches, loss)["layers.1"])
    with pytest.raises(SurgeryError, match=r"^layers\.7: is no attention block; these are: layers\.0, layers\.1$"):
        redundancy(model, batches, loss, paths=["layers.7"])


def test_it_is_a_name_of_the_root() -> None:
    assert headtune.redundancy is redundancy
    assert headtune.Redundancy is Redundancy


REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    ([], loss, TaskError, "redundancy: there is no batch; give at least one"),
    (
        3,
        "loss",
        InputError,
        "redundancy: batches: must be an iterable of batches, or a function that returns one (got 3)",
    ),
    (
        [torch.zeros(2, 5, 16)],
        lambda model, x: x.sum(),
        TaskError,
        "redundancy: loss never calls model(…) itself, so the inputs of Stack are unknown; leave loss out, and give "
        "those as batches, the arguments of its forward",
    ),
    ([(torch.zeros(2, 1, 16, dtype=torch.float64),)], None, TaskError, "redundancy: layers.0: no query sees more than"),
]


@pytest.mark.parametrize(("batches", "given", "error", "message"), REFUSED)
def test_what_cannot_be_compared_is_refused(
    make: Make, batches: Any, given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        redundancy(make("fused"), batches, given)
    assert message in str(caught.value)
