import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.errors import InputError
from headtune.nn import map_agreement, output_agreement, projection_overlap, score_norm

B, T, S, H, D, E = 2, 5, 6, 4, 3, 12
Penalty = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def close(value: Tensor, expected: float | Tensor) -> None:
    """Equal in float64, up to sums of some hundred terms of order 1."""
    assert value.shape == ()
    torch.testing.assert_close(value, torch.as_tensor(expected, dtype=value.dtype), rtol=1e-12, atol=1e-12)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


PENALTIES: dict[str, tuple[Penalty, tuple[int, ...], int]] = {
    "score_norm": (lambda w: score_norm(w, 2 * w), (H, D, E), 0),
    "projection_overlap": (projection_overlap, (H, D, E), 0),
    "output_agreement": (output_agreement, (B, T, H, D), 2),
    "map_agreement": (map_agreement, (B, H, T, S), 1),
}
each = pytest.mark.parametrize(("penalty", "shape", "heads"), PENALTIES.values(), ids=PENALTIES)


@each
def test_gradients_are_those_of_the_values(penalty: Penalty, shape: tuple[int, ...], heads: int) -> None:
    assert torch.autograd.gradcheck(penalty, normal(*shape).requires_grad_())


@each
def test_the_order_of_heads_does_not_matter(penalty: Penalty, shape: tuple[int, ...], heads: int) -> None:
    x = normal(*shape)
    close(penalty(x.index_select(heads, torch.tensor([2, 0, 3, 1]))), penalty(x))


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast_compute_in_float32(
    penalty: Penalty, shape: tuple[int, ...], heads: int, dtype: torch.dtype
) -> None:
    x = normal(*shape).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = penalty(x)
        value.backward()
    assert value.dtype == torch.float32
    assert x.grad is not None
    assert x.grad.isfinite().all()
    # The same rounded inputs, so only float32's rounding is left: bfloat16's would be some thousandths.
    torch.testing.assert_close(value, penalty(x.detach().double()).float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["projection_overlap", "output_agreement", "map_agreement"])
def test_a_step_down_the_gradient_takes_copied_heads_apart(name: str) -> None:
    penalty, shape, heads = PENALTIES[name]
    one = normal(*shape).narrow(heads, 0, 1)
    x = (one.expand(shape) + 0.1 * normal(*shape)).requires_grad_()
    before = penalty(x)
    (gradient,) = torch.autograd.grad(before, x)
    assert penalty(x - gradient / gradient.norm()) < before - 0.001


def test_the_score_norm_is_that_of_the_whole_bilinear_form() -> None:
    q, k = normal(H, D, E), normal(H, D, E + 1)
    close(score_norm(q, k), sum(torch.linalg.matrix_norm(a.T @ b) for a, b in zip(q, k, strict=True)) / H)


def test_the_score_norm_of_groups_is_that_of_repeated_keys() -> None:
    q, k = normal(H, D, E), normal(2, D, E)
    close(score_norm(q, k), score_norm(q, torch.stack([k[0], k[0], k[1], k[1]])))


def test_heads_without_weights_have_no_score_and_leave_finite_gradients() -> None:
    q = torch.cat([normal(1, D, E), torch.zeros(1, D, E)]).requires_grad_()
    k = normal(2, D, E)
    value = score_norm(q, k)
    close(value, torch.linalg.matrix_norm(q[0].T @ k[0]) / 2)
    (gradient,) = torch.autograd.grad(value, q)
    assert gradient[0].abs().min() > 0
    assert not gradient[1].any()


def test_heads_that_read_other_features_do_not_overlap() -> None:
    close(projection_overlap(torch.eye(E, dtype=torch.float64).view(H, D, E)), 0.0)


def test_copied_heads_overlap_wholly_whatever_their_scale_and_rotation() -> None:
    w = normal(D, E)
    turned, _ = torch.linalg.qr(normal(D, D))
    close(projection_overlap(torch.stack([w, -3.0 * w, turned @ w])), 1.0)


def test_the_overlap_is_the_mean_cosine_of_the_forms() -> None:
    w = normal(H, D, E)
    forms = [(one.T @ one).flatten() for one in w]
    cosines = [F.cosine_similarity(a, b, dim=0) for a, b in itertools.combinations(forms, 2)]
    close(projection_overlap(w), torch.stack(cosines).mean())


def test_two_of_three_rows_in_common_overlap_by_two_thirds() -> None:
    basis = torch.eye(4, dtype=torch.float64)
    close(projection_overlap(torch.stack([basis[:3], basis[1:]])), 2 / 3)


def test_a_head_without_weights_overlaps_with_none() -> None:
    w = normal(1, D, E)
    x = torch.cat([w, w, torch.zeros(1, D, E)]).requires_grad_()
    value = projection_overlap(x)
    close(value, 1 / 3)
    assert torch.autograd.grad(value, x)[0].isfinite().all()


def test_output_agreement_is_the_mean_cosine_of_pairs() -> None:
    o = normal(B, T, H, D)
    pairs = itertools.combinations(range(H), 2)
    cosines = [F.cosine_similarity(o[:, :, i], o[:, :, j], dim=-1) for i, j in pairs]
    close(output_agreement(o), torch.stack(cosines).mean())


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]], 1.0),
        ([[1.0, 0.0], [0.0, 5.0]], 0.0),
        ([[1.0, 2.0], [-3.0, -6.0]], -1.0),
        ([[1.0, 0.0], [1.0, 1.0]], 0.5**0.5),
        ([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], 1 / 3),  # two of three pairs are with a zero
    ],
    ids=["copies", "orthogonal", "opposite", "at 45 degrees", "one is zero"],
)
def test_output_agreement_of_known_outputs(heads: list[list[float]], expected: float) -> None:
    close(output_agreement(torch.tensor(heads, dtype=torch.float64).expand(B, T, -1, -1)), expected)


def test_an_output_that_is_zero_has_no_gradient_and_spoils_no_others() -> None:
    o = normal(1, 1, H, D)
    o[:, :, 1] = 0.0
    o.requires_grad_()
    (gradient,) = torch.autograd.grad(output_agreement(o), o)
    assert gradient.isfinite().all()
    assert not gradient[:, :, 1].any()
    assert gradient[:, :, [0, 2, 3]].abs().min() > 0


def test_map_agreement_is_the_mean_cosine_of_pairs() -> None:
    maps = normal(B, H, T, S).softmax(-1)
    pairs = itertools.combinations(range(H), 2)
    cosines = [F.cosine_similarity(maps[:, i], maps[:, j], dim=-1) for i, j in pairs]
    close(map_agreement(maps), torch.stack(cosines).mean())


def test_heads_that_attend_elsewhere_do_not_agree_and_copies_do() -> None:
    apart = torch.eye(H, S, dtype=torch.float64)[None, :, None].expand(B, H, T, S)
    close(map_agreement(apart), 0.0)
    close(map_agreement(normal(B, 1, T, S).softmax(-1).expand(B, H, T, S)), 1.0)


def test_blocked_queries_are_in_no_pair() -> None:
    maps = normal(1, H, T, S).softmax(-1)
    blocked = maps.clone()
    blocked[:, :, 1:3] = 0.0
    close(map_agreement(blocked), map_agreement(maps[:, :, [0, 3, 4]]))


def test_a_query_that_two_heads_see_has_one_pair() -> None:
    maps = normal(1, H, T, S).softmax(-1)
    seen = torch.zeros_like(maps)
    seen[:, 1:3, 2] = maps[:, 1:3, 2]
    close(map_agreement(seen), F.cosine_similarity(maps[0, 1, 2], maps[0, 2, 2], dim=0))


def test_maps_in_which_nothing_is_seen_agree_by_zero_and_leave_finite_gradients() -> None:
    maps = torch.zeros(B, H, T, S, requires_grad=True)
    value = map_agreement(maps)
    assert value == 0
    assert not torch.autograd.grad(value, maps)[0].any()


@pytest.mark.parametrize(
    "value",
    [
        projection_overlap(torch.randn(1, D, E)),
        output_agreement(torch.randn(B, T, 1, D)),
        map_agreement(torch.rand(B, 1, T, S)),
    ],
)
def test_one_head_has_no_other_to_be_like(value: Tensor) -> None:
    assert value.item() == 0


def test_the_mask_is_as_if_positions_had_not_been_there() -> None:
    counted = torch.ones(1, T, dtype=torch.bool)
    counted[0, [1, 4]] = False
    o, maps = normal(1, T, H, D), normal(1, H, T, S).softmax(-1)
    close(output_agreement(o, counted), output_agreement(o[:, [0, 2, 3]]))
    close(map_agreement(maps, counted), map_agreement(maps[:, :, [0, 2, 3]]))
    assert output_agreement(o, counted & False) == map_agreement(maps, counted & False) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: score_norm(torch.ones(4, 2, 8), torch.ones(2, 3, 8)),
            "score_norm: D must be the same in q_HDE and k_GDF (got (4, 2, 8) and (2, 3, 8))",
        ),
        (
            lambda: score_norm(torch.ones(6, 2, 8), torch.ones(4, 2, 8)),
            "score_norm: 6 heads cannot share 4 key heads; choose a divisor of 6",
        ),
        (
            lambda: score_norm(torch.ones(6, 2, 8), torch.ones(0, 2, 8)),
            "score_norm: 6 heads cannot share 0 key heads; choose a divisor of 6",
        ),
        (
            lambda: projection_overlap(torch.ones(8, 8)),
            "projection_overlap: w_HDE must have 3 dimensions, H, D, E (got (8, 8))",
        ),
        (
            lambda: output_agreement(torch.ones(2, 5, 12)),
            "output_agreement: outputs_BTHD must have 4 dimensions, B, T, H, D (got (2, 5, 12))",
        ),
        (
            lambda: output_agreement(torch.ones(2, 5, 4, 3), torch.ones(2, 5)),
            "output_agreement: counted must be boolean and of shape (2, 5), True where a position counts "
            "(got torch.float32 of shape (2, 5))",
        ),
        (
            lambda: map_agreement(torch.ones(2, 5, 12)),
            "map_agreement: maps_BHTS must have 4 dimensions, B, H, T, S (got (2, 5, 12))",
        ),
        (
            lambda: map_agreement(torch.ones(2, 4, 5, 6), torch.ones(2, 6, dtype=torch.bool)),
            "map_agreement: counted must be boolean and of shape (2, 5), True where a position counts "
            "(got torch.bool of shape (2, 6))",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
