from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from headtune.errors import StorageError
from headtune.surgery.saving.tensors import cast_as_saved, read_tensors, write_tensors


class Model(nn.Module):
    def __init__(self, tie: bool = True) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        if tie:
            self.b.weight = self.a.weight
        self.register_buffer("unlisted", torch.rand(2), persistent=False)


def test_each_tensor_is_written_once_and_comes_back_with_its_type(tmp_path: Path) -> None:
    file, model = tmp_path / "model.safetensors", Model().to(torch.bfloat16)
    write_tensors(model, file)
    with safe_open(str(file), "pt") as opened:
        assert sorted(opened.keys()) == ["a.weight", "~unlisted"]
        assert opened.metadata() == {"format": "pt", "b.weight": "a.weight"}
    other = Model()
    weight = other.a.weight
    read_tensors(other, file)
    assert other.a.weight is other.b.weight is weight  # an optimizer made before still holds it
    assert weight.dtype == torch.bfloat16
    assert torch.equal(weight, model.a.weight)
    assert torch.equal(other.get_buffer("unlisted"), model.get_buffer("unlisted"))


def test_parts_of_other_tensors_and_transposed_ones_are_written_as_they_are(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(4, 3)
    model = nn.ParameterDict(
        {"first": nn.Parameter(whole[:2]), "last": nn.Parameter(whole[2:]), "turned": nn.Parameter(torch.randn(2, 3).T)}
    )
    write_tensors(model, tmp_path / "model.safetensors")
    other = nn.ParameterDict({name: nn.Parameter(torch.zeros_like(value)) for name, value in model.items()})
    read_tensors(other, tmp_path / "model.safetensors")
    assert all(torch.equal(other[name], model[name]) for name in model)


def test_ties_that_differ_are_named(tmp_path: Path) -> None:
    write_tensors(Model(tie=True), tmp_path / "tied")
    write_tensors(Model(tie=False), tmp_path / "apart")
    with pytest.raises(StorageError) as caught:
        read_tensors(Model(tie=False), tmp_path / "tied")
    assert str(caught.value) == f"{tmp_path}: b.weight and a.weight were saved as one tensor; let build tie them"
    with pytest.raises(StorageError) as caught:
        read_tensors(Model(tie=True), tmp_path / "apart")
    assert str(caught.value) == (
        f"{tmp_path}: b.weight and a.weight are one tensor here, but were saved as two; let build keep them apart"
    )


def test_nothing_is_changed_where_something_does_not_fit(tmp_path: Path) -> None:
    write_tensors(nn.Linear(2, 2), tmp_path / "model")
    other = nn.Linear(2, 3)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(StorageError):
        read_tensors(other, tmp_path / "model")
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())


def test_tensors_that_are_not_plain_are_refused(tmp_path: Path) -> None:
    module = nn.Module()
    module.register_buffer("sparse", torch.eye(3).to_sparse())
    with pytest.raises(StorageError) as caught:
        write_tensors(module, tmp_path / "model")
    assert str(caught.value) == (
        "sparse is a Tensor of the layout torch.sparse_coo; gather it into a plain tensor first"
    )
    assert not (tmp_path / "model").exists()


def test_buffers_alone_and_types_alone(tmp_path: Path) -> None:
    model = Model()
    model.a.to(torch.float64)
    write_tensors(model, tmp_path / "buffers.safetensors", only_unlisted=True)
    other = Model()
    cast_as_saved(other, [tmp_path / "buffers.safetensors"])
    assert torch.equal(other.get_buffer("unlisted"), model.get_buffer("unlisted"))
    assert other.a.weight.dtype == torch.float32
    write_tensors(model, tmp_path / "model.safetensors")
    cast_as_saved(other, [tmp_path / "model.safetensors"])
    assert torch.equal(other.a.weight, model.a.weight)
    assert other.a.weight.dtype == torch.float64


def test_loaded_tensors_lie_in_memory_as_the_models_own_do(tmp_path: Path) -> None:
    """Kernels add in another order where memory is aligned otherwise, or strided."""
    file = tmp_path / "model.safetensors"
    write_tensors(nn.Linear(3, 7, dtype=torch.float64), file)
    with torch.device("meta"):
        without_values = nn.Linear(3, 7)
    turned = nn.Linear(3, 7)
    turned.weight.data = torch.randn(3, 7).T
    for other in (nn.Linear(3, 7), without_values, turned):
        strides = other.weight.stride()
        read_tensors(other, file)
        assert {tensor.data_ptr() % 64 for tensor in other.parameters()} == {0}
        assert (other.weight.dtype, other.weight.stride()) == (torch.float64, strides)


class Renamed(nn.Linear):
    """Lists its tensors under other names."""

    def __init__(self, spoil: bool = False) -> None:
        super().__init__(2, 2)
        self.register_state_dict_post_hook(self.hide)
        self.register_load_state_dict_pre_hook(self.spoil if spoil else self.show)

    @staticmethod
    def hide(module: nn.Module, state: dict[str, torch.Tensor], prefix: str, _: object) -> None:
        for name in list(state):
            state[f"x{name}"] = state.pop(name)

    @staticmethod
    def show(module: nn.Module, state: dict[str, torch.Tensor], *_: object) -> None:
        for name in list(state):
            state[name[1:]] = state.pop(name)

    @staticmethod
    def spoil(module: nn.Module, state: dict[str, torch.Tensor], *_: object) -> None:
        for name in list(state):
            state[name[1:]] = state.pop(name) + 1


def test_tensors_that_hooks_rename_keep_their_type_and_those_that_they_change_are_named(tmp_path: Path) -> None:
    model, other = Renamed().double(), Renamed()
    nn.init.normal_(model.weight)
    write_tensors(model, tmp_path / "model.safetensors")
    read_tensors(other, tmp_path / "model.safetensors")
    assert other.weight.dtype == torch.float64
    assert torch.equal(other.weight, model.weight)
    with pytest.raises(StorageError) as caught:
        read_tensors(Renamed(spoil=True), tmp_path / "model.safetensors")
    assert caught.value.problems == tuple(
        f"{tmp_path}: {name} did not come back as it was saved: "
        "look at the hooks of state_dict and load_state_dict in Renamed"
        for name in ("xweight", "xbias")
    )


def test_words_of_other_tools_are_passed_over_and_whole_numbers_are_refused(tmp_path: Path) -> None:
    model, file = nn.Linear(2, 2), tmp_path / "model.safetensors"
    save_file(model.state_dict(), file, metadata={"format": "pt", "author": "somebody"})
    read_tensors(nn.Linear(2, 2), file)
    save_file({**model.state_dict(), "bias": torch.zeros(2, dtype=torch.int)}, file)
    with pytest.raises(StorageError) as caught:
        read_tensors(nn.Linear(2, 2), file)
    assert str(caught.value) == f"{tmp_path}: bias is torch.int32, but a parameter that is trained in Linear"
