import pytest
import torch

from headtune.nn.operands import inverse_root, mean_over, misshapen, uncountable, units, widened


def test_every_letter_is_one_size() -> None:
    assert misshapen("f", q_HDE=torch.ones(4, 2, 8), k_GDE=torch.ones(2, 2, 8)) == []


def test_all_that_is_misshapen_is_said() -> None:
    assert misshapen("f", q_HDE=torch.ones(4, 2, 8), k_HDE=torch.ones(3, 2, 9), v_HDE=torch.ones(4, 2)) == [
        "f: H must be the same in q_HDE and k_HDE (got (4, 2, 8) and (3, 2, 9))",
        "f: E must be the same in q_HDE and k_HDE (got (4, 2, 8) and (3, 2, 9))",
        "f: v_HDE must have 3 dimensions, H, D, E (got (4, 2))",
    ]


@pytest.mark.parametrize("mask", [torch.ones(2, 3, dtype=torch.long), torch.ones(3, dtype=torch.bool)], ids=str)
def test_a_mask_of_another_type_or_shape_is_refused(mask: torch.Tensor) -> None:
    assert uncountable("f", mask, (2, 3)) == [
        "f: counted must be boolean and of shape (2, 3), True where a position counts "
        f"(got {mask.dtype} of shape {tuple(mask.shape)})"
    ]


def test_no_mask_and_a_fitting_one_are_sound() -> None:
    assert uncountable("f", None, (2, 3)) == uncountable("f", torch.ones(2, 3, dtype=torch.bool), (2, 3)) == []


def test_autocast_does_not_narrow_what_is_computed_from_widened_tensors() -> None:
    x = torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with widened(x, x.bfloat16()) as (a, b):
            assert (a @ b).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


def test_wide_tensors_stay_wide() -> None:
    with widened(torch.ones(1).half(), torch.ones(1).double()) as (a, b):
        assert a.dtype == b.dtype == torch.float64


def test_the_inverse_root_of_nothing_is_zero_without_a_gradient() -> None:
    squares = torch.tensor([4.0, 0.0, -1e-9, 1e-23, 1e-30], requires_grad=True)
    roots = inverse_root(squares)
    torch.testing.assert_close(roots, torch.tensor([0.5, 0.0, 0.0, 1e-23**-0.5, 0.0]))
    (gradient,) = torch.autograd.grad(roots.sum(), squares)
    torch.testing.assert_close(gradient, torch.tensor([-0.0625, 0.0, 0.0, -0.5 * 1e-23**-1.5, 0.0]))


def test_units_have_length_one_or_zero() -> None:
    lengths = units(torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-9, 0.0]])).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.tensor([1.0, 0.0, 1.0]))


def test_the_mean_is_of_what_counts() -> None:
    values = torch.tensor([[1.0, 2.0], [float("nan"), 6.0]])
    assert mean_over(values[:1], None) == 1.5
    assert mean_over(values, torch.tensor([[True, True], [False, True]])) == 3.0
    assert mean_over(values, torch.tensor([[False, True]])) == 4.0  # broadcast
    assert mean_over(values, torch.tensor(False)) == mean_over(values[:0], None) == 0.0
