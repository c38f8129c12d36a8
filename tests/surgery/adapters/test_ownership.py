import torch
from torch import nn

from headtune.surgery.adapters.ownership import owner, replace_module, tied, why_not_replaced


def test_a_parameter_belongs_to_the_module_that_its_name_says() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    assert owner(model, "1.0.weight") == ("1.0", model[1][0])
    assert owner(model[0], "bias") == ("", model[0])


def test_tied_parameters_are_named_with_their_other_holder() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    assert tied(model, ["0.weight", "1.weight", "0.bias"]) == ("0.weight is also 2.weight",)
    assert tied(model, ["2.weight"]) == ("2.weight is also 0.weight",)


def test_a_module_in_two_places_ties_nothing() -> None:
    shared = nn.Linear(2, 2)
    assert tied(nn.Sequential(shared, nn.ReLU(), shared), ["0.weight"]) == ()


def test_a_module_is_replaced_wherever_it_stands() -> None:
    old, new = nn.Linear(2, 2), nn.Linear(2, 2)
    model = nn.ModuleDict({"a": old, "b": nn.ModuleList([old, nn.ReLU(), old])})
    assert replace_module(model, old, new) is model
    assert model["a"] is model["b"][0] is model["b"][2] is new
    assert list(model.state_dict()) == ["a.weight", "a.bias", "b.0.weight", "b.0.bias", "b.2.weight", "b.2.bias"]


def test_a_model_that_is_the_module_gives_way_to_the_new_one() -> None:
    old, new = nn.Linear(2, 2), nn.Linear(2, 2)
    assert replace_module(old, old, new) is new


def test_a_module_that_no_name_leads_to_is_left(recwarn: object) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    before = model[0]
    replace_module(model, nn.Linear(2, 2), nn.Identity())
    assert model[0] is before
    assert torch.equal(model[0].weight, before.weight)


def test_a_block_that_was_compiled_by_itself_stays() -> None:
    block = nn.Linear(2, 2)
    model = nn.Sequential(torch.compile(block))
    assert why_not_replaced(model, block, "0._orig_mod") == (
        "torch.compile holds on to this very block; hand over the model before it is compiled"
    )
    assert why_not_replaced(torch.compile(nn.Sequential(block)), block, "_orig_mod.0") is None
