import random
from collections import OrderedDict, deque

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headtune.surgery.snapshot import Snapshot, evaluating


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


def test_what_modules_hold_in_containers_comes_back_however_nested() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.layers, self.names = [torch.zeros(2)], {0: ([], deque([1]))}, {"a"}
            self.counts: OrderedDict[str, int] = OrderedDict(a=1, b=2)

    model = Holding()
    keys, (maps, last), kept = model.keys, model.layers[0], model.keys[0]
    snapshot = Snapshot.of(model)
    kept += 1
    keys.append(torch.ones(1))
    maps.append(torch.ones(1))
    last.append(2)
    model.names.add("b")
    model.counts.move_to_end("a")
    model.layers[1] = ([], deque())
    snapshot.restore()
    assert model.keys is keys
    assert [one.tolist() for one in keys] == [[0, 0]]
    assert (maps, last, list(model.layers), model.names) == ([], deque([1]), [0], {"a"})
    assert list(model.counts) == ["a", "b"]


def test_generators_that_modules_hold_go_on_where_they_were() -> None:
    model = nn.Module()
    model.one, model.more = torch.Generator().manual_seed(1), [random.Random(1), np.random.default_rng(1)]
    model.old = np.random.RandomState(1)

    def draws() -> list[float]:
        first = float(torch.rand(1, generator=model.one))
        return [first, model.more[0].random(), model.more[1].random(), model.old.random()]

    snapshot = Snapshot.of(model)
    drawn = draws()
    snapshot.restore()
    assert draws() == drawn


def test_buffers_that_hold_nan_and_did_not_change_are_not_written_into() -> None:
    model = Block()
    model.mask[0] = float("nan")
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * model.mask)[1]
    Snapshot.of(model).restore()
    loss.backward()
    assert weight.grad is not None


def test_parameters_get_their_own_tensor_back() -> None:
    linear = nn.Linear(2, 2)
    before, state = linear.weight.data, linear.weight.clone()
    snapshot = Snapshot.of(linear)
    linear.weight.data = linear.weight.data.clamp(0, 0.01)
    linear.bias.requires_grad_(False)
    snapshot.restore()
    assert linear.weight.data_ptr() == before.data_ptr()
    assert torch.equal(linear.weight, state)
    assert linear.bias.requires_grad


class Merging(nn.Linear):
    """Merges an update into its weight in eval mode, and takes it out in training mode, as LoRA layers do."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.update, self.merged = nn.Parameter(torch.randn(4, 4)), False

    def train(self, mode: bool = True) -> "Merging":
        super().train(mode)
        if mode is self.merged:
            self.weight.data += self.update.data * (-1 if mode else 1)
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (0 if self.merged else x @ self.update.T)


def test_modes_are_switched_without_the_models_own_train() -> None:
    model = nn.Sequential(Merging(), nn.Dropout(), nn.Sequential(nn.Dropout().eval()))
    before, x = {name: value.clone() for name, value in model.state_dict().items()}, torch.randn(2, 4)
    modes = [module.training for module in model.modules()]

    def fail() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            torch.testing.assert_close(model(x), x @ (before["0.weight"] + before["0.update"]).T + before["0.bias"])
            raise ValueError("seen")

    with pytest.raises(ValueError, match="seen"):
        fail()
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
