import pytest
import torch
from torch import Tensor, nn

from headtune.surgery.writing import values_kept


class Writing(nn.Module):
    """Writes into its parameters in many ways."""

    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.weight, self.table = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(2, 3))
        self.tied = self.table
        self.still = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        self.count.data += 1
        self.weight.data[0].mul_(2)
        self.weight.detach().view(-1)[4] = 7
        torch._foreach_add_([self.table.data], 1.0)
        torch.add(self.still.data[:1], 1, out=self.still.data[1:])
        return x + self.count + self.weight.sum()


def values(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("grad", [True, False])
def test_parameters_that_a_pass_writes_into_get_their_values_back(grad: bool) -> None:
    model = Writing()
    before = values(model)
    with torch.set_grad_enabled(grad), values_kept(model):
        model(torch.ones(1))
        model(torch.ones(1))
        assert model.count.item() == 2
        assert not any(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model(torch.ones(1)).backward()
    assert model.weight.grad is not None


def test_only_what_is_written_into_is_copied_and_meta_tensors_have_nothing_to_copy() -> None:
    class Heavy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.big, self.small = nn.Linear(1000, 1000), nn.Parameter(torch.zeros(1), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            self.small += 1
            return self.big(x)

    model, x = Heavy(), torch.ones(1, 1000)
    with torch.no_grad(), torch.profiler.profile(profile_memory=True) as seen, values_kept(model):
        model(x)
    assert max(event.self_cpu_memory_usage for event in seen.events()) < 10_000
    model = Heavy().to("meta")
    with torch.no_grad(), values_kept(model):
        assert model(x.to("meta")).is_meta


def test_values_come_back_after_an_error_too() -> None:
    model = Writing()
    with pytest.raises(TypeError), values_kept(model):
        model(None)
    assert model.count.item() == 0
