import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from headtune.surgery.probe.operations import (
    BADDBMM,
    EINSUM,
    EXPAND,
    LINEAR,
    MATMUL,
    PLUS,
    RMATMUL,
    SOFTMAX,
    factor,
    product,
)

A, K = torch.randn(2, 3, 4), torch.randn(2, 4, 3)


class Seen(TorchFunctionMode):
    """Keeps what the probe would be handed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, tuple[object, ...], dict[str, object]]] = []

    def __torch_function__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def last(run: object) -> tuple[object, tuple[object, ...], dict[str, object]]:
    with Seen() as seen:
        run()
    return seen.calls[-1]


PRODUCTS = {
    "@": lambda: A @ K,
    "matmul": lambda: torch.matmul(A, K),
    "matmul by name": lambda: torch.matmul(A, other=K),
    "Tensor.matmul": lambda: A.matmul(K),
    "bmm": lambda: torch.bmm(A, K),
    "bmm by name": lambda: torch.bmm(input=A, mat2=K),
    "Tensor.bmm": lambda: A.bmm(K),
    "einsum": lambda: torch.einsum("bij,bjk->bik", A, K),
    "einsum of a list": lambda: torch.einsum("b i j, b j k -> b i k", [A, K]),
    "baddbmm": lambda: torch.baddbmm(torch.zeros(2, 3, 3), A, K, alpha=0.5),
    "baddbmm by name": lambda: torch.zeros(2, 3, 3).baddbmm(batch1=A, batch2=K, alpha=0.5),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_way_to_write_a_product_gives_its_factors(name: str) -> None:
    function, args, kwargs = last(PRODUCTS[name])
    assert function in MATMUL | RMATMUL | BADDBMM | EINSUM
    found = product(function, args, kwargs)
    assert found is not None
    assert found.left is A
    assert found.right is K
    assert found.equation == ("bij,bjk->bik" if "einsum" in name else None)
    assert found.alpha == (0.5 if "baddbmm" in name else 1.0)


def test_einsums_of_one_or_three_tensors_are_no_products() -> None:
    for run in (lambda: torch.einsum("bij->bji", A), lambda: torch.einsum("bij,bjk,bkl->bil", A, K, A)):
        assert product(*last(run)) is None


FACTORS = {
    "times": (lambda: A * 3, 3.0),
    "times from the left": (lambda: 3 * A, 3.0),
    "mul": (lambda: torch.mul(A, 0.5), 0.5),
    "in place": (lambda: A.clone().mul_(2), 2.0),
    "augmented": (lambda: _augmented(A.clone()), 0.25),
    "over": (lambda: A / 8, 0.125),
    "div": (lambda: torch.div(A, 4), 0.25),
    "over in place": (lambda: A.clone().div_(2), 0.5),
    "one element": (lambda: A * torch.tensor(5.0), 5.0),
    "over one element": (lambda: A / torch.tensor([4.0]), 0.25),
    "tensors": (lambda: A * A, 1.0),
    "a sum": (lambda: A + 3, 1.0),
    "by nothing": (lambda: A.neg(), 1.0),
    "over zero": (lambda: A / 0, 1.0),
    "meta": (lambda: A.to("meta") * torch.tensor(3.0, device="meta"), 1.0),
}


def _augmented(x: Tensor) -> None:
    x *= 0.25


@pytest.mark.parametrize("name", FACTORS)
def test_the_number_that_an_operation_multiplies_with(name: str) -> None:
    run, expected = FACTORS[name]
    function, args, _ = last(run)
    assert factor(function, args) == expected


@pytest.mark.parametrize(
    ("run", "functions"),
    [
        (lambda: A.softmax(-1), SOFTMAX),
        (lambda: torch.softmax(A, -1), SOFTMAX),
        (lambda: F.softmax(A, -1), SOFTMAX),
        (lambda: torch.nn.Softmax(-1)(A), SOFTMAX),
        (lambda: F.linear(A, K[0].T), LINEAR),
        (lambda: torch.nn.Linear(4, 2)(A), LINEAR),
        (lambda: A + A, PLUS),
        (lambda: A.clone().add_(A), PLUS),
        (lambda: 1 - A, PLUS),
        (lambda: A[:, None].expand(2, 5, 3, 4), EXPAND),
        (lambda: A.repeat_interleave(2, dim=0), EXPAND),
        (lambda: torch.repeat_interleave(A, 2, dim=0), EXPAND),
        (lambda: A.repeat(2, 1, 1), EXPAND),
    ],
)
def test_functions_are_known_under_all_their_names(run: object, functions: frozenset[object]) -> None:
    assert last(run)[0] in functions
