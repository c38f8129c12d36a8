"""Models whose weights or types would hide a wrong cut, each refused as it is in plain float32."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.surgery import prune
from headtune.surgery.standins import stood_in

E, H = 32, 4


class Attention(nn.Module):
    """Heads that look back and ahead by turns, by their number: those that stay would look another way."""

    def __init__(self, *, by_number: bool) -> None:
        super().__init__()
        self.num_heads, self.by_number = H, by_number
        self.q, self.k, self.v, self.o = (nn.Linear(E, E) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, E // H)).transpose(1, 2) for f in (self.q, self.k, self.v))
        back = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        seen = torch.stack([back if head % 2 == 0 or not self.by_number else back.T for head in range(self.num_heads)])
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, *, by_number: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attn, self.head = Attention(by_number=by_number), nn.Linear(E, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.attn(x))


def plain(net: Net) -> Net:
    return net


def in_half_with_one_large_feature(net: Net) -> Net:
    net.attn.o.bias.data[0] = 5
    return net.bfloat16()


def in_float16(net: Net) -> Net:
    return net.half()


def with_nan(net: Net) -> Net:
    net.attn.o.bias.data[:] = float("nan")
    return net


def started_at_zero(net: Net) -> Net:
    nn.init.zeros_(net.attn.o.weight)
    return net


def with_heads_that_nothing_reads(net: Net) -> Net:
    net.attn.o.weight.data[:, E // H :] = 0
    return net


HIDING = [
    plain,
    in_half_with_one_large_feature,
    in_float16,
    with_nan,
    started_at_zero,
    with_heads_that_nothing_reads,
]


@pytest.mark.parametrize("hide", HIDING)
def test_a_wrong_cut_is_found_and_a_right_one_passes(hide: Callable[[Net], Net]) -> None:
    wrong, right = (hide(Net(by_number=by_number)) for by_number in (True, False))
    x = torch.randn(2, 6, E, generator=torch.Generator().manual_seed(1)).to(right.head.weight.dtype)
    before = copy.deepcopy(right.state_dict())
    with pytest.raises(SurgeryError, match=r"^attn with 2x8: what attn\.o\.weight puts out is off by"):
        prune(wrong, {"attn": [1, 3]}, (x,))
    pruned = prune(right, {"attn": [1, 3]}, (x,))
    kept = torch.arange(E).view(H, -1)[[1, 3]].flatten()
    for name in ("q", "k", "v"):
        torch.testing.assert_close(pruned.state_dict()[f"attn.{name}.weight"], before[f"attn.{name}.weight"][kept])
    assert torch.equal(pruned.state_dict()["attn.o.weight"], before["attn.o.weight"][:, kept])
    for name, value in right.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)


def test_autocast_hides_nothing() -> None:
    wrong, right = (Net(by_number=by_number) for by_number in (True, False))
    wrong.attn.o.bias.data[0] = 5
    x = torch.randn(2, 6, E)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(SurgeryError, match=r"^attn with 2x8: what attn\.o\.weight puts out is off by"):
            prune(wrong, {"attn": [1, 3]}, (x,))
        assert prune(right, {"attn": [1, 3]}, (x,))(x).dtype == torch.bfloat16


def test_an_object_and_a_mask_hide_nothing() -> None:
    class Answer:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    class Divided(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) / self.num_heads

    class Masked(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).masked_fill(torch.arange(5) == 4, -1e9)

    class Wrapped(Net):
        def forward(self, x: Tensor) -> Answer:  # type: ignore[override]
            return Answer(super().forward(x))

    for net in Masked(by_number=False), Wrapped(by_number=False):
        net.attn = Divided(by_number=False)
        with pytest.raises(SurgeryError, match=r"^attn with 1x8: what it returns is off by"):
            prune(net, {"attn": [0]}, (torch.randn(2, 6, E),))


def test_a_model_that_runs_in_no_other_type_is_compared_in_its_own() -> None:
    class Strict(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.bfloat16())

    x = torch.randn(2, 6, E)
    wrong, right = (Strict(by_number=by_number).bfloat16() for by_number in (True, False))
    wrong.attn.o.bias.data[0] = 5
    with pytest.raises(SurgeryError, match=r"^attn with 2x8: what attn\.o\.weight puts out is off by"):
        prune(wrong, {"attn": [1, 3]}, (x,))
    assert prune(right, {"attn": [1, 3]}, (x,)).attn.num_heads == 2


def test_a_double_model_that_attends_in_single_precision_is_compared_in_that() -> None:
    class Single(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (f(x).unflatten(-1, (-1, E // H)).transpose(1, 2) for f in (self.q, self.k, self.v))
            weights = (q.float() @ k.float().mT).softmax(-1).to(v.dtype)
            return self.o((weights @ v).float().to(v.dtype).transpose(1, 2).flatten(2))

    net = Net(by_number=False)
    net.attn = Single(by_number=False)
    assert prune(net.double(), {"attn": [1, 3]}, (torch.randn(2, 6, E).double(),)).attn.num_heads == 2


def test_everything_is_put_back_and_what_is_shared_stays_shared() -> None:
    net = Net(by_number=False).bfloat16()
    net.head.weight = nn.Parameter(net.attn.o.weight[:5].detach())
    net.attn.k.weight = net.attn.q.weight
    net.register_buffer("mean", torch.ones(2, dtype=torch.bfloat16))
    parameters, buffer = dict(net.named_parameters()), net.mean
    inputs = {"x": torch.ones(1, dtype=torch.bfloat16), "more": [torch.ones(1, dtype=torch.int8)]}
    with stood_in(net, inputs) as (wide, changed):
        assert changed
        assert net.attn.k.weight is net.attn.q.weight
        assert {one.dtype for one in (*net.parameters(), *net.buffers())} == {torch.float32}
        assert isinstance(wide, dict)
        assert wide["x"].dtype == torch.float32
        assert wide["more"][0].dtype == torch.int8
    assert all(parameters[name] is one for name, one in net.named_parameters())
    assert net.mean is buffer


def test_nothing_stands_in_where_nothing_is_hidden() -> None:
    net = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 4))
    nn.init.zeros_(net[1].bias)
    with stood_in(net, (torch.zeros(1),)) as (_, changed):
        assert not changed
