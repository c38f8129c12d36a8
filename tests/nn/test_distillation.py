import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.errors import InputError
from headtune.nn import attention_map_loss, hidden_state_loss, relation_loss, soft_target_loss

B, T, S, H, D, E, C = 2, 5, 6, 4, 3, 12, 7
Loss = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def close(value: Tensor, expected: float | Tensor) -> None:
    """Equal in float64, up to sums of some hundred terms of order 1."""
    assert value.shape == ()
    torch.testing.assert_close(value, torch.as_tensor(expected, dtype=value.dtype), rtol=1e-12, atol=1e-12)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def softened(student: Tensor, teacher: Tensor, counted: Tensor | None = None) -> Tensor:
    return soft_target_loss(student, teacher, 2.0, counted)


def maps_apart(student: Tensor, teacher: Tensor, counted: Tensor | None = None) -> Tensor:
    return attention_map_loss(student.softmax(-1), teacher.softmax(-1), counted)


def related(student: Tensor, teacher: Tensor, counted: Tensor | None = None) -> Tensor:
    return relation_loss(student, teacher, 6, counted)


LOSSES: dict[str, tuple[Loss, tuple[int, ...], tuple[int, ...]]] = {
    "soft targets": (softened, (B, T, C), (B, T, C)),
    "hidden states": (hidden_state_loss, (B, T, E), (B, T, E)),
    "hidden states of another width": (hidden_state_loss, (B, T, E), (B, T, 20)),
    "attention maps": (maps_apart, (B, H, T, S), (B, H, T, S)),
    "attention maps of other heads": (maps_apart, (B, H, T, S), (B, 3, T, S)),
    "relations": (related, (B, T, H, D), (B, T, H, D)),
    "relations of other heads": (related, (B, T, H, D), (B, T, 3, 8)),
}
each = pytest.mark.parametrize(("loss", "student", "teacher"), LOSSES.values(), ids=LOSSES)


@each
def test_zero_for_equals_and_positive_for_others(
    loss: Loss, student: tuple[int, ...], teacher: tuple[int, ...]
) -> None:
    mine, theirs = normal(*student), normal(*teacher)
    close(loss(mine, mine), 0.0)
    assert loss(mine, theirs) > 0.01


@each
def test_gradients_are_those_of_the_values_and_the_students_alone(
    loss: Loss, student: tuple[int, ...], teacher: tuple[int, ...]
) -> None:
    mine, theirs = normal(*student).requires_grad_(), normal(*teacher).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, theirs.detach()), mine)
    loss(mine, theirs).backward()
    assert mine.grad is not None
    assert mine.grad.any()
    assert theirs.grad is None


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast_compute_in_float32(
    loss: Loss, student: tuple[int, ...], teacher: tuple[int, ...], dtype: torch.dtype
) -> None:
    mine, theirs = normal(*student), normal(*teacher)
    if loss is maps_apart:  # the maps are what is rounded
        loss, mine, theirs = attention_map_loss, mine.softmax(-1), theirs.softmax(-1)
    mine, theirs = mine.to(dtype).requires_grad_(), theirs.to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(mine, theirs)
        value.backward()
    assert value.dtype == torch.float32
    assert mine.grad is not None
    assert mine.grad.isfinite().all()
    # The same rounded inputs, so only float32's rounding is left: bfloat16's would be some thousandths.
    torch.testing.assert_close(value, loss(mine.detach().double(), theirs.double()).float(), rtol=1e-5, atol=1e-6)


@each
def test_the_mask_is_as_if_positions_had_not_been_there(
    loss: Loss, student: tuple[int, ...], teacher: tuple[int, ...]
) -> None:
    mine, theirs = normal(*student)[:1], normal(*teacher)[:1]
    counted = torch.ones(1, T, dtype=torch.bool)
    counted[0, [1, 4]] = False
    at = 2 if loss is maps_apart else 1
    kept = torch.tensor([0, 2, 3])
    close(loss(mine, theirs, counted), loss(mine.index_select(at, kept), theirs.index_select(at, kept)))


@each
def test_a_batch_in_which_nothing_counts_costs_nothing(
    loss: Loss, student: tuple[int, ...], teacher: tuple[int, ...]
) -> None:
    mine, theirs = normal(*student).requires_grad_(), normal(*teacher)
    value = loss(mine, theirs, torch.zeros(B, T, dtype=torch.bool))
    assert value == 0
    with torch.autograd.set_detect_anomaly(True):  # raises at a NaN, also one that no gradient shows
        assert not torch.autograd.grad(value, mine)[0].any()


def test_soft_targets_by_hand() -> None:
    teacher, student = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64), torch.zeros(1, 2)
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    close(soft_target_loss(student, teacher, 1.0), expected)


@pytest.mark.parametrize("temperature", [1, 0.5, 4.0])
def test_soft_targets_are_what_pytorch_computes(temperature: float) -> None:
    student, teacher = normal(B * T, C), normal(B * T, C)
    expected = temperature**2 * F.kl_div(
        F.log_softmax(student / temperature, -1), F.softmax(teacher / temperature, -1), reduction="batchmean"
    )
    close(soft_target_loss(student, teacher, temperature), expected)
    close(soft_target_loss(student.view(B, T, C), teacher.view(B, T, C), temperature), expected)


def test_at_high_temperature_logits_are_regressed() -> None:
    """The limit that Hinton et al. derive (eq. 4): half the mean square of the difference of centred logits."""
    student, teacher = normal(B, C), normal(B, C)
    centred = (student - student.mean(-1, keepdim=True)) - (teacher - teacher.mean(-1, keepdim=True))
    value = soft_target_loss(student, teacher, 1e4)
    torch.testing.assert_close(value, centred.square().mean() / 2, rtol=1e-3, atol=0)


def test_a_class_that_neither_allows_counts_as_absent() -> None:
    student, teacher = normal(B, C), normal(B, C)
    expected = soft_target_loss(student[:, 1:], teacher[:, 1:], 2.0)
    student[:, 0] = teacher[:, 0] = -math.inf
    student.requires_grad_()
    value = soft_target_loss(student, teacher, 2.0)
    close(value, expected)
    assert torch.autograd.grad(value, student)[0].isfinite().all()


def test_hidden_states_are_compared_whatever_their_scale_and_offset() -> None:
    states = 10 * normal(B, T, E)
    torch.testing.assert_close(hidden_state_loss(3 * states - 5, states).item(), 0.0, atol=1e-6, rtol=0)


def test_hidden_states_by_hand() -> None:
    student, teacher = torch.tensor([[[1.0, -1.0]]]), torch.tensor([[[-1e3, 1e3]]])
    assert hidden_state_loss(1e3 * student, teacher).item() == pytest.approx(4.0)


def test_states_of_other_widths_are_compared_by_the_cosines_of_positions() -> None:
    student = torch.tensor([[[2.0, 0.0], [0.0, 3.0]]])
    teacher = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]])
    assert hidden_state_loss(student, teacher).item() == pytest.approx(2 * 0.5 / 4)
    turned, _ = torch.linalg.qr(normal(E, E))
    states = normal(B, T, E)
    wider = torch.cat([7 * states @ turned, torch.zeros(B, T, 3)], -1)
    close(hidden_state_loss(wider, states), 0.0)


def test_positions_without_a_state_leave_finite_gradients() -> None:
    student = torch.zeros(B, T, E, requires_grad=True)
    assert torch.autograd.grad(hidden_state_loss(student, torch.randn(B, T, 5)), student)[0].isfinite().all()


def test_attention_maps_are_what_pytorch_computes() -> None:
    student, teacher = normal(B, H, T, S).softmax(-1), normal(B, H, T, S).softmax(-1)
    close(attention_map_loss(student, teacher), F.kl_div(student.log(), teacher, reduction="sum") / (B * H * T))


def test_maps_of_other_head_counts_are_compared_by_their_means() -> None:
    student, teacher = normal(B, H, T, S).softmax(-1), normal(B, 2, T, S).softmax(-1)
    expected = F.kl_div(student.mean(1).log(), teacher.mean(1), reduction="sum") / (B * T)
    close(attention_map_loss(student, teacher), expected)
    close(attention_map_loss(teacher.repeat(1, 3, 1, 1), teacher), 0.0)


def test_masked_keys_and_blocked_queries_leave_finite_gradients() -> None:
    blocked = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = normal(1, H, T, T).requires_grad_()
    student = scores.masked_fill(blocked, -math.inf).softmax(-1)
    teacher = normal(1, H, T, T).masked_fill(blocked, -math.inf).softmax(-1)
    value = attention_map_loss(student, teacher)
    seen = ~blocked.expand(H, T, T)
    p, q = teacher[0][seen], student[0][seen]
    close(value, (p * (p / q).log()).sum() / (H * T))
    assert torch.autograd.grad(value, scores)[0].isfinite().all()
    teacher[:, :, 2] = 0.0
    kept = [0, 1, 3, 4]
    close(attention_map_loss(student, teacher), attention_map_loss(student[:, :, kept], teacher[:, :, kept]))


def test_what_the_student_does_not_see_at_all_costs_finitely() -> None:
    student, teacher = torch.tensor([[[[1.0, 0.0]]]], requires_grad=True), torch.tensor([[[[0.5, 0.5]]]])
    value = attention_map_loss(student, teacher)
    assert 10 < value < 100
    assert torch.autograd.grad(value, student)[0].isfinite().all()


@pytest.mark.parametrize("relation_heads", [1, 2, 6, 12])
def test_relations_are_the_papers(relation_heads: int) -> None:
    """One batch item, relation head and position after the other."""
    student, teacher = normal(B, T, H, D), normal(B, T, 3, 8)
    losses = []
    for b in range(B):
        mine = student[b].reshape(T, H * D).split(H * D // relation_heads, dim=1)
        theirs = teacher[b].reshape(T, 24).split(24 // relation_heads, dim=1)
        for s, t in zip(mine, theirs, strict=True):
            log_q = F.log_softmax(s @ s.T / math.sqrt(s.shape[1]), -1)
            p = F.softmax(t @ t.T / math.sqrt(t.shape[1]), -1)
            losses += [F.kl_div(log_q[row], p[row], reduction="sum") for row in range(T)]
    close(relation_loss(student, teacher, relation_heads), torch.stack(losses).mean())


def test_relations_do_not_depend_on_how_features_were_split_into_heads() -> None:
    student, teacher = normal(B, T, 4, 6), normal(B, T, 3, 8)
    close(relation_loss(student.view(B, T, 2, 12), teacher.view(B, T, 8, 3), 4), relation_loss(student, teacher, 4))


UNFIT: list[tuple[Callable[[], Tensor], str]] = [
    (
        lambda: soft_target_loss(torch.ones(4, 3), torch.ones(4, 5), 2.0),
        "soft_target_loss: student and teacher must have logits of the same classes (got shapes (4, 3) and (4, 5))",
    ),
    (
        lambda: soft_target_loss(torch.ones(4, 1), torch.ones(4, 1), 2.0),
        "soft_target_loss: logits must be of two classes at least (got shape (4, 1)); give "
        "torch.cat([torch.zeros_like(logit), logit], -1) of a binary logit, take F.mse_loss for a regression",
    ),
    (
        lambda: soft_target_loss(torch.ones(4, 3), torch.ones(3), 0, torch.ones(4)),
        "3 problems:\n"
        "  - soft_target_loss: temperature: must be a number above 0 (got 0)\n"
        "  - soft_target_loss: student and teacher must have logits of the same classes (got shapes (4, 3) and (3,))\n"
        "  - soft_target_loss: counted must be boolean and of shape (4,), True where a position counts "
        "(got torch.float32 of shape (4,))",
    ),
    (
        lambda: hidden_state_loss(torch.ones(2, 5, 8), torch.ones(2, 6, 8)),
        "hidden_state_loss: T must be the same in student_BTE and teacher_BTF (got (2, 5, 8) and (2, 6, 8))",
    ),
    (
        lambda: hidden_state_loss(torch.ones(2, 5, 8), torch.ones(2, 5, 8), torch.ones(2, 5, dtype=torch.long)),
        "hidden_state_loss: counted must be boolean and of shape (2, 5), True where a position counts "
        "(got torch.int64 of shape (2, 5))",
    ),
    (
        lambda: attention_map_loss(torch.ones(2, 4, 5, 5), torch.ones(2, 4, 5, 6)),
        "attention_map_loss: S must be the same in student_BHTS and teacher_BGTS (got (2, 4, 5, 5) and (2, 4, 5, 6))",
    ),
    (
        lambda: attention_map_loss(torch.ones(5, 5), torch.ones(2, 4, 5, 5)),
        "attention_map_loss: student_BHTS must have 4 dimensions, B, H, T, S (got (5, 5))",
    ),
    (
        lambda: attention_map_loss(torch.ones(2, 4, 5, 6), torch.ones(2, 4, 5, 6), torch.ones(2, 6, dtype=torch.bool)),
        "attention_map_loss: counted must be boolean and of shape (2, 5), True where a position counts "
        "(got torch.bool of shape (2, 6))",
    ),
    (
        lambda: relation_loss(torch.ones(2, 5, 4, 3), torch.ones(2, 5, 3, 6), 4),
        "relation_loss: widths of 12 and 18 do not both divide into 4 relation heads; choose a divisor of 6",
    ),
    (
        lambda: relation_loss(torch.ones(2, 5, 4, 3), torch.ones(3, 5, 4, 3), 0),
        "2 problems:\n"
        "  - relation_loss: B must be the same in student_BTHD and teacher_BTGF (got (2, 5, 4, 3) and (3, 5, 4, 3))\n"
        "  - relation_loss: relation_heads: must be at least 1 (got 0)",
    ),
]


@pytest.mark.parametrize(("call", "message"), UNFIT)
def test_what_does_not_fit_is_refused(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
