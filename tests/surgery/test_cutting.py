from collections.abc import Sequence

import pytest
import torch
from torch import nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery.cutting import Cut, Cuts
from headtune.surgery.wiring import Wiring, follow

H, D = 8, 2


def span(head: int) -> frozenset[int]:
    return frozenset(range(D * head, D * head + D))


def site(path: str = "a", heads: int = H, kv_heads: int = H) -> AttentionSite:
    return AttentionSite(path=path, role="self", embed_dim=16, num_heads=heads, num_kv_heads=kv_heads, head_dim=D)


def wiring(pairs: Sequence[int] = range(H), prefix: str = "a", k: str | None = None, out: str | None = None) -> Wiring:
    """Heads whose key/value heads are *pairs*."""
    return Wiring(
        q=tuple({f"{prefix}.q": span(head)} for head in range(len(pairs))),
        k=tuple({k or f"{prefix}.k": span(pair)} for pair in pairs),
        v=tuple({f"{prefix}.v": span(pair)} for pair in pairs),
        out=tuple({out or f"{prefix}.out": span(head)} for head in range(len(pairs))),
    )


NEIGHBOURS, TURNS = (0, 0, 1, 1, 2, 2, 3, 3), (0, 1, 2, 3, 0, 1, 2, 3)


def test_a_cut_leaves_what_some_head_needs() -> None:
    cut = Cut.of(site(), wiring(), (1, 2, 3, 4, 5, 6))
    assert cut.wanted == HeadCount(6, 6, D)
    gone = span(0) | span(7)
    assert cut.made == {"a.q": gone, "a.k": gone, "a.v": gone}
    assert cut.read == {"a.out": gone}
    assert cut.projections == ("a.q", "a.k", "a.v")


def test_whole_groups_take_their_key_value_heads_along() -> None:
    cut = Cut.of(site(kv_heads=4), wiring(NEIGHBOURS), (2, 3, 6, 7))
    assert cut.wanted == HeadCount(4, 2, D)
    assert cut.made["a.k"] == span(0) | span(2)


def test_a_part_of_each_group_leaves_keys_and_values_alone() -> None:
    cut = Cut.of(site(kv_heads=4), wiring(NEIGHBOURS), (0, 3, 4, 7))
    assert cut.wanted == HeadCount(4, 4, D)
    assert list(cut.made) == ["a.q"]


def test_groups_are_those_of_the_wiring() -> None:
    """A model may hide from whoever only watches it that its keys are shared."""
    cut = Cut.of(site(kv_heads=H), wiring(NEIGHBOURS), (0, 1))
    assert cut.wanted == HeadCount(2, 1, D)
    assert cut.site.num_kv_heads == 4


def cuts(kept: dict[str, list[int]], found: dict[str, Wiring]) -> Cuts:
    return Cuts.of([site(path, kv_heads=found[path].num_kv_heads) for path in kept], found, HeadMask.of(kept))


def test_unequal_groups_are_refused_by_the_wiring() -> None:
    with pytest.raises(PlanError) as caught:
        cuts({"a": [0, 1, 2], "b": [0, 1]}, {"a": wiring(NEIGHBOURS), "b": wiring(TURNS, "b")})
    assert str(caught.value) == (
        "a: key/value head 0 keeps 2, key/value head 1 keeps 1; keep equally many of each 2, or none"
    )


@pytest.mark.parametrize("kept", [[0, 4], [0, 1], [0, 1, 2, 3], [2, 3, 6, 7], [1, 3, 5, 7]])
def test_heads_that_take_turns_may_go_while_the_turns_stay_in_order(kept: list[int]) -> None:
    assert cuts({"a": kept}, {"a": wiring(TURNS)}).cuts[0].wanted.num_heads == len(kept)


@pytest.mark.parametrize("kept", [[3, 4], [1, 2, 4, 7], [1, 4]])
def test_heads_whose_turns_would_be_mixed_up_are_refused(kept: list[int]) -> None:
    with pytest.raises(SurgeryError) as caught:
        cuts({"a": kept}, {"a": wiring(TURNS)})
    assert str(caught.value) == (
        "a: its heads share key/value heads in turn, and those that stay would be paired with others; "
        "keep heads whose turns come in the same order"
    )


def test_features_that_another_block_needs_cannot_go() -> None:
    shared_keys = {"a": wiring(k="keys"), "b": wiring(prefix="b", k="keys")}
    with pytest.raises(SurgeryError) as caught:
        cuts({"a": [0, 1]}, shared_keys)
    assert str(caught.value) == "a: b uses the same features of keys; keep the same heads in both"
    shared_output = {"a": wiring(out="out"), "b": wiring(prefix="b", out="out")}
    with pytest.raises(SurgeryError) as caught:
        cuts({"a": [0, 1], "b": [0, 2]}, shared_output)
    assert caught.value.problems == (
        "a: b uses the same features of out; keep the same heads in both",
        "b: a uses the same features of out; keep the same heads in both",
    )


def test_features_that_two_blocks_share_go_once() -> None:
    model = nn.ModuleDict({name: nn.Linear(16, 16) for name in ("q", "k", "v", "out")})
    one = Wiring(
        **{letter: tuple({f"{letter}.weight": span(head)} for head in range(H)) for letter in ("q", "k", "v", "out")}
    )
    made = Cuts((Cut.of(site(""), one, (0, 1, 2)), Cut.of(site("q"), one, (0, 1, 2))))
    made.silence(model)
    assert model["out"].weight[:, 6:].eq(0).all()
    assert model["out"].weight[:, :6].ne(0).all()
    made.make(model)
    assert [model[name].weight.shape for name in ("q", "k", "v", "out")] == [(6, 16), (6, 16), (6, 16), (16, 6)]


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_learned_extra_keys_lose_what_keys_lose(kv_heads: int) -> None:
    block = HeadedAttention(16, 4, head_dim=3, num_kv_heads=kv_heads, add_bias_kv=True, batch_first=True)
    x = torch.randn(2, 5, 16)
    bias_k, bias_v = block.bias_k.detach().clone(), block.bias_v.detach().clone()
    (found,) = follow(block, (x, x, x)).wirings.values()
    kept = (2, 3)
    where = AttentionSite(path="", role="self", embed_dim=16, num_heads=4, num_kv_heads=kv_heads, head_dim=3)
    Cuts((Cut.of(where, found, kept),)).make(block)
    assert torch.equal(block.bias_k, bias_k[..., -3 * kv_heads // 2 :])
    assert torch.equal(block.bias_v, bias_v[..., -3 * kv_heads // 2 :])
    assert (block.num_heads, block.num_kv_heads, block.head_dim) == (2, kv_heads // 2, 3)
    assert block(x, x, x)[0].shape == x.shape
