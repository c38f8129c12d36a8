import torch
from torch import Tensor

from headtune.surgery.probe.function_call import FunctionCall


def test_a_call_is_made_as_it_was() -> None:
    x, y = torch.randn(2, 3), torch.randn(3, 2)
    assert torch.equal(FunctionCall(torch.matmul, (x,), {"other": y}).run(), x @ y)


def test_it_is_made_again_with_other_tensors_wherever_they_stand() -> None:
    x, y, z = torch.randn(2, 3), torch.randn(3, 2), torch.randn(2, 3)
    assert torch.equal(FunctionCall(torch.matmul, (x, y), {}).again({x: z}), z @ y)
    assert torch.equal(FunctionCall(torch.matmul, (x,), {"other": y}).again({y: z.mT}), x @ z.mT)
    assert torch.equal(FunctionCall(torch.einsum, ("ij,jk->ik", [x, y]), {}).again({x: z}), z @ y)
    assert torch.equal(FunctionCall(torch.matmul, (x, y), {}).again({}), x @ y)


def test_equal_values_are_not_the_same_tensor() -> None:
    x = torch.ones(2, 2)
    assert torch.equal(FunctionCall(torch.add, (x, x.clone()), {}).again({x: torch.zeros(2, 2)}), torch.ones(2, 2))


def test_what_was_written_into_stays_as_it_is() -> None:
    scores, q, k = torch.zeros(1, 2, 2), torch.randn(1, 2, 3), torch.randn(1, 3, 2)
    call = FunctionCall(Tensor.baddbmm_, (scores, q, k), {})
    call.run()
    assert torch.equal(call.again({q: torch.zeros_like(q)}), torch.zeros(1, 2, 2))
    assert torch.allclose(scores, q @ k)


def test_tensors_are_found_one_list_deep() -> None:
    x, y, z = torch.ones(1), torch.ones(2), torch.ones(3)
    assert [len(one) for one in FunctionCall(torch.cat, ([x, y], 0), {"out": z}).tensors()] == [1, 2, 3]
    assert list(FunctionCall(torch.arange, (5,), {}).tensors()) == []


def test_only_products_of_two_tensors_are_products() -> None:
    x, y = torch.ones(2, 3), torch.ones(3, 2)
    product = FunctionCall(torch.matmul, (x, y), {}).product()
    assert product is not None
    assert product.left is x
    assert FunctionCall(torch.add, (x, y), {}).product() is None
