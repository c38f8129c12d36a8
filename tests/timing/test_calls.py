import pytest
import torch
from torch import Tensor, nn

from headtune.timing.calls import Call, calls_of


class Twice(nn.Module):
    """Runs its second layer twice, once with a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.counted = nn.Dropout(0.5), nn.Identity(), [0]

    def forward(self, x: Tensor) -> Tensor:
        self.counted[0] += 1
        out: Tensor = self.second(input=self.second(self.first(x)))
        return out


def kept(module: nn.Module, called: Call) -> tuple[bool, bool, int, list[str]]:
    args, kwargs = called
    return module.training, torch.is_grad_enabled(), len(args), list(kwargs)


def test_each_call_is_told_in_eval_mode_and_the_model_is_left_as_it_was() -> None:
    model = Twice().train()
    seen = calls_of(model, (torch.ones(2),), {"b": model.second, "a": model.first}, kept)
    assert seen == {"a": [(False, False, 1, [])], "b": [(False, False, 1, []), (False, False, 0, ["input"])]}
    assert list(seen) == ["a", "b"]  # in the order of their first calls
    assert model.training
    assert model.counted == [0]
    assert not model.first._forward_pre_hooks


def test_a_module_that_does_not_run_has_no_calls_and_errors_pass_through() -> None:
    model = Twice()
    assert calls_of(model, (torch.ones(2),), {"other": nn.Identity()}, kept) == {}
    with pytest.raises(TypeError):
        calls_of(model, (), {"a": model.first}, kept)
    assert not model.first._forward_pre_hooks
