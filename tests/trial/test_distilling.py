"""A person's loss together with a teacher's answers, against both computed by hand."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import TaskError
from headtune.trial.distilling import Distillation

Wrap = Callable[[Tensor], Any]


class Net(nn.Module):
    """A classifier that answers in some form."""

    def __init__(self, seed: int, wrap: Wrap = lambda found: found) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear, self.dropout, self.wrap = nn.Linear(6, 4), nn.Dropout(0.5), wrap

    def forward(self, x: Tensor, scale: float = 1.0) -> Any:
        return self.wrap(scale * self.linear(self.dropout(x)))


X, Y = torch.randn(5, 6, generator=torch.Generator().manual_seed(7)), torch.tensor([0, 1, 2, 3, 0])


def own(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    answer = model(x, scale=2.0)
    return F.cross_entropy(
        next(iter(answer.values())) if isinstance(answer, dict) else getattr(answer, "logits", answer), y
    )


def by_hand(student: nn.Module, teacher: nn.Module, alpha: float, temperature: float) -> Tensor:
    mine, theirs = (2 * model.linear(X) for model in (student, teacher))  # type: ignore[operator]
    apart = F.kl_div((mine / temperature).log_softmax(-1), (theirs / temperature).softmax(-1), reduction="batchmean")
    return (1 - alpha) * F.cross_entropy(mine, Y) + alpha * temperature**2 * apart


WRAPS: dict[str, Wrap] = {
    "tensor": lambda found: found,
    "attribute": lambda found: SimpleNamespace(logits=found, other=None),
    "mapping": lambda found: {"logits": found},
}


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("wrap", WRAPS)
def test_it_is_the_weighted_sum_of_both(wrap: str, alpha: float) -> None:
    student, teacher = Net(0, WRAPS[wrap]).eval(), Net(1, WRAPS[wrap]).eval()
    loss = Distillation(alpha=alpha, temperature=3.0).loss(own, teacher)
    torch.testing.assert_close(loss(student, (X, Y)), by_hand(student, teacher, alpha, 3.0))


def test_gradients_reach_the_student_alone_and_no_hook_stays() -> None:
    student, teacher = Net(0).eval(), Net(1).eval()
    Distillation(alpha=1.0).loss(own, teacher)(student, (X, Y)).backward()
    assert student.linear.weight.grad is not None
    assert student.linear.weight.grad.abs().sum() > 0
    assert teacher.linear.weight.grad is None
    assert not student._forward_hooks


def test_a_student_that_is_its_teacher_has_nothing_to_learn() -> None:
    student = Net(0).eval()
    found = Distillation(alpha=1.0).loss(own, Net(0).eval())(student, (X, Y))
    torch.testing.assert_close(found.detach(), torch.zeros(()), rtol=0, atol=1e-6)  # float32


def test_hidden_states_are_compared_as_such() -> None:
    student, teacher = Net(0).eval(), Net(1).eval()
    found = Distillation(alpha=1.0, match="states").loss(lambda model, x: model(x).sum(), teacher)(student, X[None])
    mine, theirs = (F.layer_norm(model.linear(X), (4,)) for model in (student, teacher))
    torch.testing.assert_close(found, F.mse_loss(mine, theirs))
    named = Net(0, lambda found: SimpleNamespace(last_hidden_state=found)).eval()
    like = Net(1, lambda found: SimpleNamespace(last_hidden_state=found)).eval()
    again = Distillation(alpha=1.0).loss(lambda model, x: model(x).last_hidden_state.sum(), like)(named, X[None])
    torch.testing.assert_close(again, found)


def test_every_call_counts_alike() -> None:
    student, teacher = Net(0).eval(), Net(1).eval()

    def twice(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return own(model, batch) + own(model, batch)

    once, both = (Distillation(alpha=1.0).loss(loss, teacher)(student, (X, Y)) for loss in (own, twice))
    torch.testing.assert_close(both, once)


@pytest.mark.parametrize(
    ("loss", "wrap", "message"),
    [
        (lambda model, x: x.sum(), lambda found: found, "loss never calls model"),
        (lambda model, x: x.sum() + len(model(x)), lambda found: "words", "the model returned str; to learn from"),
    ],
    ids=["never called", "no tensor"],
)
def test_answers_that_cannot_be_compared_are_refused(loss: Any, wrap: Wrap, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Distillation().loss(loss, Net(1, wrap).eval())(Net(0, wrap), X)
