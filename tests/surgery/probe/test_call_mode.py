import pytest
import torch
from torch import nn

from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall


class Doubling(CallMode):
    """Gives back twice what a linear map puts out, and keeps the names of all it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def see(self, call: FunctionCall) -> object:
        self.seen.append(getattr(call.function, "__name__", ""))
        result = call.run()
        return result * 2 if call.function is nn.functional.linear and isinstance(result, torch.Tensor) else result


def test_the_caller_gets_what_see_gives_back() -> None:
    linear, x = nn.Linear(3, 2), torch.ones(1, 3)
    with Doubling() as mode:
        found = torch.softmax(linear(x), dim=-1)
    assert mode.seen == ["linear", "softmax"]
    assert torch.equal(found, torch.softmax(2 * linear(x), dim=-1))


def test_named_and_unnamed_arguments_come_as_they_were_given() -> None:
    calls: list[FunctionCall] = []

    class Keeping(CallMode):
        def see(self, call: FunctionCall) -> object:
            calls.append(call)
            return call.run()

    x = torch.ones(2, 2)
    with Keeping():
        torch.softmax(x, dim=0)
        torch.relu(x)
    assert [(call.args, call.kwargs) for call in calls] == [((x,), {"dim": 0}), ((x,), {})]


def test_a_mode_must_say_what_it_does() -> None:
    with pytest.raises(TypeError, match="abstract"):
        CallMode()  # type: ignore[abstract]
