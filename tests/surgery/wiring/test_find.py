from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.nn import HeadedAttention
from headtune.surgery.wiring import follow, wirings


def test_every_block_has_a_wiring_or_a_reason(planted: SimpleNamespace) -> None:
    model = nn.Sequential(planted.Separate(), planted.Gated(), planted.Manual())
    found = follow(model, planted.inputs())
    assert list(found.wirings) == ["0", "2"]
    assert found.reasons == {
        "1": "its heads are gated, normalised or mixed before 1.out.weight reads them, "
        "so that they cannot be followed; keep all its heads"
    }
    assert wirings(model, planted.inputs()) == found.wirings
    assert found.wirings["2"].q[1] == {"2.q.weight": planted.span(1)}


def test_a_block_that_is_used_several_times_has_one_wiring(planted: SimpleNamespace) -> None:
    block = planted.Separate()
    assert list(follow(nn.Sequential(block, block, block), planted.inputs()).wirings) == ["0"]


def test_a_block_whose_uses_differ_has_a_reason(planted: SimpleNamespace) -> None:
    class Twice(planted.Separate):
        def __init__(self) -> None:
            super().__init__()
            self.q2 = nn.Linear(planted.E, planted.H * planted.D)

        def forward(self, x: Tensor) -> Tensor:
            x = super().forward(x)
            self.q, self.q2 = self.q2, self.q
            return super().forward(x)

    assert follow(Twice(), planted.inputs()).reasons == {
        "": "it computes attention several times, each time with other projections; keep all its heads"
    }


def test_one_use_that_cannot_be_followed_is_the_blocks_reason(planted: SimpleNamespace) -> None:
    class Once(planted.Separate):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y + super().forward(x[:, :1])

    assert list(follow(Once(), planted.inputs()).reasons) == [""]


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 8, "vdim": 10}])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_headed_attention_is_followed_on_both_its_paths(
    options: dict[str, int], need_weights: bool, kv_heads: int
) -> None:
    block = HeadedAttention(24, 4, head_dim=5, num_kv_heads=kv_heads, batch_first=True, **options)
    query, key, value = torch.randn(2, 5, 24), torch.randn(2, 6, block.kdim), torch.randn(2, 6, block.vdim)
    inputs = {"query": query, "key": key, "value": value, "need_weights": need_weights}
    wiring = follow(block, inputs).wirings[""]
    assert wiring.num_kv_heads == kv_heads
    rows = [frozenset(range(5 * head, 5 * head + 5)) for head in range(4)]
    assert wiring.q == tuple({"q_proj.weight": one} for one in rows)
    assert wiring.v == tuple({"v_proj.weight": rows[head * kv_heads // 4]} for head in range(4))
    assert wiring.out == tuple({"out_proj.weight": one} for one in rows)


def test_the_model_is_left_as_it_was(planted: SimpleNamespace) -> None:
    class Caching(planted.Separate):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(3, 5, planted.H * planted.D))
            self.last: Tensor | None = None

        def finish(self, y: Tensor, x: Tensor) -> Tensor:
            self.cache.copy_(self.k(x))
            self.last = y
            return super().finish(y, x)

    model = Caching().train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    assert list(follow(model, planted.inputs()).wirings) == [""]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not model.cache.requires_grad
    assert model.last is None
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_compiled_models_are_followed_in_python(planted: SimpleNamespace) -> None:
    assert list(follow(torch.compile(planted.Separate()), planted.inputs()).wirings) == ["_orig_mod"]


def test_a_failing_forward_is_reported_with_its_place(planted: SimpleNamespace) -> None:
    class Failing(planted.Separate):
        def finish(self, y: Tensor, x: Tensor) -> Tensor:
            raise ValueError("no")

    with pytest.raises(SurgeryError) as caught:
        follow(nn.Sequential(Failing()), planted.inputs())
    assert str(caught.value) == (
        "heads cannot be followed: with gradients, and numbers of heads for values, forward raises "
        "ValueError: no in 0; let it run whatever its values"
    )
