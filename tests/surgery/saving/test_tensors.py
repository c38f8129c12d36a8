from pathlib import Path

import pytest
import torch
from safetensors import safe_open
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
    cast_as_saved(other, tmp_path)
    assert torch.equal(other.get_buffer("unlisted"), model.get_buffer("unlisted"))
    assert other.a.weight.dtype == torch.float32
    write_tensors(model, tmp_path / "model.safetensors")
    cast_as_saved(other, tmp_path)
    assert torch.equal(other.a.weight, model.a.weight)
    assert other.a.weight.dtype == torch.float64
