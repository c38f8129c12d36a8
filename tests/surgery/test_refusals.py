import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.surgery.refusals import check_no_optimizer, check_workable


def refusal(model: object) -> str:
    with pytest.raises(SurgeryError) as caught:
        check_workable(model)
    return str(caught.value)


def test_ordinary_models_pass() -> None:
    for model in (nn.Linear(2, 2), nn.Transformer(8, 2, 1, 1, 8), torch.compile(nn.Linear(2, 2))):
        check_workable(model)


def test_what_is_no_module_is_refused() -> None:
    assert refusal([nn.Linear(2, 2)]) == "the model came as list: give a torch.nn.Module"


def test_wrapped_models_are_refused_by_class_and_base_class() -> None:
    inside = "hand over the module inside (model.module) and wrap the result"
    assert refusal(nn.DataParallel(nn.Linear(2, 2))) == f"the model is wrapped in DataParallel: {inside}"

    class FSDPModule:  # what fully_shard mixes into the class of every module that it shards
        pass

    class FSDPLinear(FSDPModule, nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(2, 2), FSDPLinear(2, 2))
    assert refusal(model) == "1 is wrapped in FSDPModule: apply the plan before sharding"


def test_a_distributed_model_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = tmp_path_factory.mktemp("ddp") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        assert refusal(wrapped).startswith(
            "the model is wrapped in DistributedDataParallel: hand over the module inside"
        )
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_models_are_refused() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)))
    assert refusal(model) == (
        "0 is a TorchScript module, which cannot be watched: give the Python module it was made from"
    )


def test_every_lazy_module_is_named() -> None:
    model = nn.Sequential(nn.LazyLinear(2), nn.ReLU(), nn.LazyLinear(2))
    assert refusal(model) == (
        "2 problems:\n"
        "  - 0 has lazy parameters that are not initialised: run the model once first\n"
        "  - 2 has lazy parameters that are not initialised: run the model once first"
    )
    model(torch.ones(1, 3))
    check_workable(model)


def test_an_optimizer_of_other_weights_or_one_that_is_gone_is_no_hindrance() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    kept = torch.optim.AdamW(other.parameters())
    gone = torch.optim.SGD(model.parameters(), lr=0.1)
    gone.state["itself"] = gone  # only the garbage collector finds that nobody holds it
    del gone
    check_no_optimizer(model)
    with pytest.raises(SurgeryError) as caught:
        check_no_optimizer(other)
    assert str(caught.value) == "AdamW holds weights that would be replaced: make it anew afterwards, or take a copy"
    assert kept.param_groups


def test_every_optimizer_is_named() -> None:
    model = nn.Linear(2, 2)
    both = [torch.optim.AdamW(model.parameters()), torch.optim.SGD([model.bias], lr=0.1)]
    with pytest.raises(SurgeryError) as caught:
        check_no_optimizer(model)
    assert sorted(problem.split()[0] for problem in caught.value.problems) == ["AdamW", "SGD"]
    assert len(both) == 2
