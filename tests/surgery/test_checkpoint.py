"""A saved model comes back exact, or with a reason."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import InputError, StorageError, SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.heads.site import Hold
from headtune.surgery import apply, apply_plan, find_sites, load, save
from headtune.surgery.checkpoint import Skeleton, load_checkpoint, read_skeleton, save_checkpoint
from headtune.surgery.pruning import prune

INPUTS = (torch.randn(3, 5, 16),)


def build(nhead: int = 4, layers: int = 2) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, nhead, 32, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


def planned(skeleton: Skeleton) -> nn.Module:
    return apply(build(), skeleton.plan, INPUTS)


def parsed(text: str, hold: Hold, model: nn.Module) -> HeadPlan:
    return HeadPlan.parse(text, find_sites(model, INPUTS), hold=hold)


def same(left: nn.Module, right: nn.Module, inputs: tuple[torch.Tensor, ...] = INPUTS) -> bool:
    """Bit for bit, in outputs and in tensors."""
    ours, theirs = left.state_dict(), right.state_dict()
    tensors = ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in ours
    )
    with torch.no_grad():
        return tensors and torch.equal(left.eval()(*inputs), right.eval()(*inputs))


@pytest.mark.parametrize(("hold", "text"), [("width", "*=8"), ("head_dim", "layers.0.*=1 layers.1.*=3")])
def test_saved_is_loaded_bit_for_bit(tmp_path: Path, hold: Hold, text: str) -> None:
    skeleton = Skeleton(plan=parsed(text, hold, build()), hold=hold, params={"lr": 0.1})
    model = planned(skeleton)
    save_checkpoint(model, tmp_path / "model", skeleton)
    assert read_skeleton(tmp_path / "model") == skeleton
    for builder in (planned, lambda _: build()):
        assert same(load_checkpoint(tmp_path / "model", builder), model)


def test_a_model_that_was_never_changed_comes_back(tmp_path: Path) -> None:
    model = build()
    save(model, tmp_path / "model")
    assert same(load(tmp_path / "model", build), model)
    assert read_skeleton(tmp_path / "model").plan == HeadPlan.of({})


def test_several_operations_in_any_order_come_back(tmp_path: Path) -> None:
    def rehead(model: nn.Module) -> nn.Module:
        return apply(model, parsed("layers.0.*=2", "width", model), INPUTS)

    def cut(model: nn.Module) -> nn.Module:
        """Without the first key/value head and its query heads, where there are others."""
        first = {site.path: site.group_size * (site.num_kv_heads > 1) for site in find_sites(model, INPUTS)}
        kept = {site.path: range(first[site.path], site.num_heads) for site in find_sites(model, INPUTS)}
        return prune(model, kept, INPUTS)

    def grow(model: nn.Module) -> nn.Module:
        plan = HeadPlan.of({site.path: HeadCount(4, 2, 6) for site in find_sites(model, INPUTS)})
        return apply_plan(model, plan, INPUTS, hold="head_dim")

    for number, operations in enumerate([(rehead, cut), (cut, grow), (grow, cut), (rehead, cut, grow), (cut, cut)]):
        model = build()
        for operation in operations:
            model = operation(model)
        folder = tmp_path / str(number)
        save(model, folder)
        loaded = load(folder, build)
        assert same(loaded, model)
        assert read_skeleton(folder).plan == HeadPlan.present(find_sites(loaded, INPUTS))
        save(cut(loaded), folder)  # what was loaded is a model like any other
        assert same(load(folder, build), cut(loaded))


@pytest.mark.parametrize("name", ["config", "lucid to_kv", "nano cross", "annotated", "tensor scale", "grouped fused"])
@pytest.mark.parametrize("hold", ["width", "head_dim"])
def test_hand_written_models_come_back(tmp_path: Path, zoo: SimpleNamespace, name: str, hold: Hold) -> None:
    model, inputs = zoo.build(name), zoo.inputs(name)
    sites = find_sites(model, inputs)
    wanted = HeadCount(2, 2, 12) if hold == "width" else HeadCount(3, 3, 6)
    small = apply_plan(model, HeadPlan.of({site.path: wanted for site in sites}), inputs, hold=hold)
    save(small, tmp_path)
    assert same(load(tmp_path, lambda: zoo.build(name)), small, inputs)


def test_the_record_goes_where_the_model_goes(tmp_path: Path) -> None:
    model = apply(build(), parsed("*=2", "head_dim", build()), INPUTS)
    moved = copy.deepcopy(model).to(torch.float64).to(torch.float32)
    assert not any("headtune" in name for name in moved.state_dict())
    wrapped = nn.ModuleDict({"body": moved})
    save(wrapped, tmp_path / "wrapped")
    assert same(load(tmp_path / "wrapped", lambda: nn.ModuleDict({"body": build()}))["body"], model)  # type: ignore[index]
    assert isinstance(model, nn.TransformerEncoder)
    save(model.layers[1], tmp_path / "part")
    assert same(load(tmp_path / "part", lambda: build().layers[1]), model.layers[1])  # type: ignore[index, union-attr]


def test_a_block_that_is_the_whole_model_comes_back(tmp_path: Path) -> None:
    query = torch.randn(2, 5, 16)

    class Alone(nn.Module):
        def __init__(self, block: nn.Module) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(x, x, x)[0]

    block = nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True)
    small = prune(block, {"": [0, 3]}, (query, query, query))
    save(small, tmp_path)
    loaded = load(tmp_path, lambda: nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True))
    assert same(Alone(loaded), Alone(small), (query,))


class Tied(nn.Module):
    """A language model's shape: one table in and out, a buffer in no state_dict, a half-precision part."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(11, 16), build(), nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("angles", torch.rand(16), persistent=False)
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(ids) * self.angles))


def test_ties_buffers_and_types_come_back(tmp_path: Path) -> None:
    ids = torch.arange(10).reshape(2, 5)
    model = Tied()
    sites = find_sites(model, (ids,))
    model = apply(model, HeadPlan.parse("*=2", sites, hold="head_dim"), (ids,)).to(torch.bfloat16)
    model.get_buffer("steps").fill_(7)
    save(model, tmp_path)
    loaded = load(tmp_path, Tied)
    assert same(loaded, model, (ids,))
    assert loaded.get_parameter("head.weight") is loaded.get_parameter("embed.weight")
    assert torch.equal(loaded.get_buffer("angles"), model.get_buffer("angles"))
    assert {name for name, _ in loaded.named_parameters()} == {name for name, _ in model.named_parameters()}


def test_a_skeleton_without_values_gets_them(tmp_path: Path) -> None:
    def on_meta() -> nn.Module:
        with torch.device("meta"):
            return Tied()

    ids = torch.arange(10).reshape(2, 5)
    model = apply(Tied(), HeadPlan.parse("*=2", find_sites(Tied(), (ids,)), hold="head_dim"), (ids,))
    save(model, tmp_path)
    loaded = load(tmp_path, on_meta)
    assert same(loaded, model, (ids,))
    assert loaded.get_parameter("head.weight") is loaded.get_parameter("embed.weight")


def test_build_gets_the_params_that_it_names(tmp_path: Path) -> None:
    save(build(layers=3), tmp_path, params={"layers": 3, "lr": 0.1})
    assert len(load(tmp_path, build).layers) == 3  # type: ignore[arg-type]


def test_compiled_models_are_saved_as_what_is_inside(tmp_path: Path) -> None:
    model = build()
    save(torch.compile(model, backend="eager"), tmp_path)  # type: ignore[arg-type]
    assert same(load(tmp_path, build), model)


def test_saving_leaves_the_model_alone(tmp_path: Path) -> None:
    model = apply(build(), parsed("*=2", "head_dim", build()), INPUTS).train()
    before = {name: (id(tensor), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    save(model, tmp_path)
    after = model.state_dict(keep_vars=True)
    assert model.training
    assert all(id(after[name]) == old and torch.equal(after[name], value) for name, (old, value) in before.items())


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no saved model .* it needs plan.json and model.safetensors"):
        read_skeleton(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StorageError) as caught:
        load(tmp_path, build)
    assert str(caught.value) == (
        f"{tmp_path} was written by save_pretrained: load it by the model's class, as in BertModel"
    )


def test_a_half_written_folder_is_refused(tmp_path: Path) -> None:
    save(build(), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError, match=r"model.safetensors: the tensors cannot be read"):
        load(tmp_path, build)
    (tmp_path / "plan.json").write_text('{"plan": {')
    with pytest.raises(StorageError, match="no saved model"):
        load(tmp_path, build)


def test_every_tensor_that_does_not_fit_is_named(tmp_path: Path) -> None:
    save(nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2, bias=False)}), tmp_path)
    other = nn.ModuleDict({"a": nn.Linear(3, 4), "c": nn.Linear(3, 2, bias=False)})
    with pytest.raises(StorageError) as caught:
        load(tmp_path, lambda: other)
    assert caught.value.problems == (
        f"{tmp_path}: a.bias is (2,), but (4,) in ModuleDict",
        f"{tmp_path}: a.weight is (2, 3), but (4, 3) in ModuleDict",
        f"{tmp_path}: b.weight is there, but ModuleDict has no such tensor",
        f"{tmp_path}: c.weight is not there, but ModuleDict has it",
    )


def test_another_architecture_with_equal_tensors_is_refused(tmp_path: Path) -> None:
    save(build(nhead=4), tmp_path)
    with pytest.raises(StorageError) as caught:
        load(tmp_path, lambda: build(nhead=2))
    assert caught.value.problems == tuple(
        f"{tmp_path}: layers.{layer}.self_attn.{name} is {found} in TransformerEncoder, but was saved as {saved}"
        for layer in (0, 1)
        for name, found, saved in (("num_heads", 2, 4), ("head_dim", 8, 4))
    )


def test_a_build_without_the_changed_block_is_refused(tmp_path: Path) -> None:
    save(apply(build(), parsed("*=2", "head_dim", build()), INPUTS), tmp_path)
    with pytest.raises(StorageError) as caught:
        load(tmp_path, lambda: nn.Linear(3, 3))
    assert caught.value.problems[0] == (
        f"{tmp_path / 'plan.json'}: layers.0.self_attn: Linear has no such module, "
        "where the saved model has a changed one"
    )
    with pytest.raises(StorageError, match=r"build returned str; it must return a torch.nn.Module"):
        load(tmp_path, lambda: "model")  # type: ignore[arg-type, return-value]


def test_a_file_in_the_way_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    skeleton = Skeleton(plan=HeadPlan.present(find_sites(build(), INPUTS)), hold="width", params={})
    with pytest.raises(StorageError, match="the model cannot be written"):
        save_checkpoint(build(), tmp_path / "taken", skeleton)
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_a_model_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    model = build()
    save(model, tmp_path / "model")

    class Packed(nn.Module):
        def get_extra_state(self) -> dict[str, int]:
            return {"scale": 1}

    quantised = nn.Sequential(Packed())
    with torch.device("meta"):
        empty = nn.Linear(2, 2, bias=False)
    quantised.append(empty)
    with pytest.raises(StorageError) as caught:
        save(quantised, tmp_path / "model")
    assert caught.value.problems == (
        "0._extra_state is a dict, and only tensors can be saved; quantise after loading instead",
        "1.weight has no values: it is on the meta device, or offloaded; load the model first",
    )
    assert same(load(tmp_path / "model", build), model)
    with pytest.raises(SurgeryError, match="wrapped in DataParallel"):
        save(nn.DataParallel(build()), tmp_path / "model")


def test_plan_json_says_the_plan_in_plain_words(tmp_path: Path) -> None:
    save(apply(build(), parsed("*=2", "head_dim", build()), INPUTS), tmp_path)
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["plan"] == {"layers.0.self_attn": [2, 2, 4], "layers.1.self_attn": [2, 2, 4]}


def damaged(content: Any) -> Iterator[Any]:
    """The same JSON with each of its values in turn as others."""
    yield from (None, [], {}, -1, "text", [None], {"a": None}, [-1, 3])
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            for other in damaged(value):
                changed = copy.copy(content)
                changed[key] = other
                yield changed


def test_whatever_is_damaged_in_a_plan_is_told_in_words(tmp_path: Path) -> None:
    model = apply(build(layers=1), parsed("*=2", "head_dim", build(layers=1)), INPUTS)
    save(model, tmp_path, params={"layers": 1})
    whole = json.loads((tmp_path / "plan.json").read_text())
    told: list[str] = []
    for content in damaged(whole):
        (tmp_path / "plan.json").write_text(json.dumps(content))
        try:
            load(tmp_path, lambda: build(layers=1))  # what fits all the same may load
        except StorageError as error:
            told += error.problems
    assert len(told) > 100
    assert all(problem.startswith(str(tmp_path)) for problem in told)


def test_arguments_that_make_no_sense_are_refused_in_words(tmp_path: Path) -> None:
    wrong: Any = None
    with pytest.raises(SurgeryError, match=r"the model came as int: give a torch.nn.Module"):
        save(5, tmp_path)  # type: ignore[arg-type]
    for call in (lambda: save(build(), wrong), lambda: load(wrong, build)):
        with pytest.raises(InputError, match=r"folder: must be a path \(got None\)"):
            call()
    with pytest.raises(InputError, match=r"build: must be a function that returns the model, or a class \(got None\)"):
        load(tmp_path, wrong)
    save(build(), tmp_path, params={"lr": 0.1})
    with pytest.raises(StorageError) as caught:
        load(tmp_path, lambda width: build())
    assert str(caught.value) == (
        f"{tmp_path}: build cannot be called (missing a required argument: 'width'); of its arguments it gets the "
        "saved params (lr): save the model with params, or wrap build in a function that needs no more"
    )
