import torch
from torch import nn

from headtune.surgery.snapshot import Snapshot


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.cache = 4, {"a": 1}
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mask", torch.zeros(2))


def test_everything_is_put_back() -> None:
    model = nn.Sequential(Block(), Block()).train()
    first, linear, weight, mask = model[0], model[0].linear, model[0].linear.weight, model[0].mask
    handle = first.register_forward_hook(lambda *_: None)
    snapshot = Snapshot.of(model)

    model.eval()
    first.heads, first.new = 2, "attribute"
    del first.cache["a"]
    first.cache["b"] = 2
    first.linear.weight = nn.Parameter(torch.ones(5, 3))
    first.linear.out_features = 5
    first.linear = nn.Identity()
    first.mask.fill_(7)
    first.register_buffer("other", torch.ones(1))
    first.register_forward_pre_hook(lambda *_: None)
    handle.remove()
    model[1] = nn.Identity()
    model.add_module("2", nn.Identity())
    snapshot.restore()

    assert [module.training for module in model.modules()] == [True] * 5
    assert len(model) == 2
    assert (first.heads, first.cache) == (4, {"a": 1})
    assert "new" not in vars(first)
    assert first.linear is linear
    assert linear.weight is weight
    assert linear.out_features == 3
    assert first.mask is mask
    assert torch.equal(mask, torch.zeros(2))
    assert list(first.state_dict()) == ["mask", "linear.weight", "linear.bias"]
    assert len(first._forward_hooks) == 1
    assert not first._forward_pre_hooks


def test_hooks_can_still_be_removed_by_their_handles() -> None:
    model = Block()
    handle = model.register_forward_hook(lambda *_: None)
    snapshot = Snapshot.of(model)
    snapshot.restore()
    handle.remove()
    assert not model._forward_hooks


def test_a_buffer_that_was_replaced_or_holds_nan_comes_back() -> None:
    model = Block()
    model.mask.fill_(float("nan"))
    before = model.mask
    snapshot = Snapshot.of(model)
    model.mask = torch.ones(2)
    before.zero_()
    snapshot.restore()
    assert model.mask is before
    assert before.isnan().all()


def test_nothing_is_copied_but_tensors_that_are_written_into_and_meta_tensors_are_left() -> None:
    model = Block().to("meta")
    Snapshot.of(model).restore()
    snapshot = Snapshot.of(Block())
    assert [value.numel() for _, value, _ in snapshot.values] == [2]


def test_tensors_that_are_written_into_get_their_values_back() -> None:
    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))
            self.cache = torch.zeros(2)

    model = Caching()
    seen, cache, x = model.seen, model.cache, torch.ones(2, requires_grad=True)
    snapshot = Snapshot.of(model)
    model.seen.copy_(x)
    model.cache[:1] = x[:1]
    snapshot.restore()
    assert model.seen is seen
    assert model.cache is cache
    for tensor in (seen, cache):
        assert tensor.tolist() == [0, 0]
        assert tensor.is_leaf
        assert not tensor.requires_grad


def test_a_tensor_that_was_part_of_a_graph_stays_there() -> None:
    model = nn.Module()
    model.kept = torch.ones(2, requires_grad=True) * 2
    Snapshot.of(model).restore()
    assert model.kept.grad_fn is not None
