from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.saving.document import described_edits, headed_options
from headtune.surgery.saving.edits import edits_of
from headtune.surgery.saving.rebuilding import rebuilt

NAMES = ["config", "lucid", "nano cross", "annotated", "tensor scale", "child", "merged"]


@pytest.mark.parametrize("name", NAMES)
def test_a_skeleton_becomes_what_surgery_made_of_its_twin(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs(name)
    plan = HeadPlan.of({site.path: HeadCount(3, 3, 6) for site in find_sites(model, inputs)})
    small = apply_plan(model, plan, inputs, hold="head_dim")
    described = described_edits(small)
    skeleton = zoo.build(name)
    for _ in range(2):  # what is there already stays
        skeleton = rebuilt(skeleton, described)
        assert described_edits(skeleton) == described
        assert HeadPlan.present(find_sites(skeleton, inputs)) == plan
    skeleton.load_state_dict(small.state_dict())
    assert torch.equal(skeleton(*inputs), small(*inputs))
    assert [edits_of(module) for module in skeleton.modules()] == [edits_of(module) for module in small.modules()]


def test_a_shared_block_is_replaced_everywhere_with_its_mode_type_and_hooks() -> None:
    shared = nn.MultiheadAttention(8, 4, dtype=torch.float64).eval()
    calls: list[nn.Module] = []
    shared.register_forward_hook(lambda module, args, output: calls.append(module))
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared)})
    options = headed_options(HeadedAttention(8, 2, head_dim=3))
    made = rebuilt(model, {"a": {"headed": options}})
    assert isinstance(made, nn.ModuleDict)
    assert made["a"] is made["b"][0]  # type: ignore[index]
    assert isinstance(made["a"], HeadedAttention)
    assert (made["a"].training, made["a"].q_proj.weight.dtype) == (False, torch.float64)
    x = torch.randn(3, 1, 8, dtype=torch.float64)
    made["a"](x, x, x)
    assert calls == [made["a"]]


def test_a_model_that_is_the_block_gives_way_to_it() -> None:
    options = headed_options(HeadedAttention(8, 2, head_dim=3))
    assert isinstance(rebuilt(nn.MultiheadAttention(8, 4), {"": {"headed": options}}), HeadedAttention)


def test_tensors_of_every_kind_are_put_in_place() -> None:
    module = nn.Linear(2, 2)
    module.weight.requires_grad_(False)
    module.register_buffer("angles", torch.zeros(2), persistent=False)
    module.register_buffer("table", torch.zeros(2))
    described = {
        "weight": [3, 2],
        "bias": None,
        "table": [5],
        "angles": {"tensor": [0.5], "shape": [1], "dtype": "float32"},
    }
    rebuilt(module, {"": {"tensors": described}})
    assert (module.weight.shape, module.weight.requires_grad, module.bias) == ((3, 2), False, None)
    assert isinstance(module.weight, nn.Parameter)
    assert torch.equal(module.get_buffer("angles"), torch.tensor([0.5]))
    assert module.get_buffer("table").shape == (5,)
    assert list(module.state_dict()) == ["weight", "table"]


def test_every_missing_module_is_named_and_another_kind_is_refused() -> None:
    with pytest.raises(StorageError) as caught:
        rebuilt(nn.Linear(2, 2), {"a": {}, "b.c": {}})
    assert caught.value.problems == (
        "a: Linear has no such module, where the saved model has a changed one",
        "b.c: Linear has no such module, where the saved model has a changed one",
    )
    with pytest.raises(StorageError) as caught:
        rebuilt(nn.Sequential(nn.ReLU()), {"0": {"tensors": {"weight": [2]}}})
    assert str(caught.value) == (
        "0: what surgery changed does not fit ReLU (KeyError('weight')); "
        "build must return the architecture that was saved, and the file must be whole"
    )
