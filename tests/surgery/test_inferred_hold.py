from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import apply, find_sites, hold_of

WIDTH = 16


def encoder() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


@pytest.fixture
def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(3, 5, WIDTH, generator=torch.Generator().manual_seed(1)),)


def plan_of(model: nn.Module, inputs: tuple[torch.Tensor], *counts: tuple[int, int]) -> HeadPlan:
    paths = [site.path for site in find_sites(model, inputs)]
    return HeadPlan.of({path: HeadCount(heads, heads, dim) for path, (heads, dim) in zip(paths, counts, strict=True)})


@pytest.mark.parametrize(
    ("counts", "hold"),
    [
        (((4, 4), (4, 4)), "width"),
        (((8, 2), (1, 16)), "width"),
        (((2, 4), (4, 4)), "head_dim"),
        (((4, 4), (4, 8)), "head_dim"),
        (((1, 1), (1, 1)), "head_dim"),
    ],
)
def test_a_plan_holds_the_width_where_every_site_keeps_its_own(
    inputs: tuple[torch.Tensor], counts: tuple[tuple[int, int], ...], hold: str
) -> None:
    model = encoder()
    assert hold_of(plan_of(model, inputs, *counts), find_sites(model, inputs)) == hold


def test_a_site_that_the_model_does_not_have_keeps_no_width(inputs: tuple[torch.Tensor]) -> None:
    assert hold_of(HeadPlan.of({"elsewhere": HeadCount(4, 4, 4)}), find_sites(encoder(), inputs)) == "head_dim"


@pytest.mark.parametrize("counts", [((8, 2), (1, 16)), ((2, 4), (3, 4))])
def test_the_copy_computes_with_the_counts_and_the_model_stays(
    inputs: tuple[torch.Tensor], counts: tuple[tuple[int, int], ...]
) -> None:
    model = encoder()
    before = model(*inputs)
    plan = plan_of(model, inputs, *counts)
    small = apply(model, plan, inputs)
    assert HeadPlan.present(find_sites(small, inputs)) == plan
    assert torch.equal(model(*inputs), before)
    assert HeadPlan.present(find_sites(model, inputs)) != plan


def test_weights_stay_under_a_held_width_and_shrink_with_fewer_heads_of_the_same_size(
    inputs: tuple[torch.Tensor],
) -> None:
    model = encoder()

    def weights(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    same = apply(model, plan_of(model, inputs, (2, 8), (2, 8)), inputs)
    fewer = apply(model, plan_of(model, inputs, (2, 4), (2, 4)), inputs)
    # A head of 4 features has 3 x (16 x 4 + 4) weights going in and 4 x 16 coming out; two heads leave each layer.
    assert weights(same) == weights(model)
    assert weights(fewer) == weights(model) - 2 * 2 * (3 * (WIDTH * 4 + 4) + 4 * WIDTH)


def test_a_seed_draws_the_same_weights_again(inputs: tuple[torch.Tensor]) -> None:
    model = encoder()
    plan = plan_of(model, inputs, (2, 4), (2, 4))
    first, again, other = (apply(model, plan, inputs, seed=seed)(*inputs) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_in_place(inputs: tuple[torch.Tensor]) -> None:
    model = encoder()
    plan = plan_of(model, inputs, (8, 2), (8, 2))
    assert apply(model, plan, inputs, copy=False) is model
    assert HeadPlan.present(find_sites(model, inputs)) == plan


def test_a_plan_of_another_model_is_refused(inputs: tuple[torch.Tensor]) -> None:
    with pytest.raises(SurgeryError, match="elsewhere"):
        apply(encoder(), HeadPlan.of({"elsewhere": HeadCount(4, 4, 4)}), inputs)


def test_the_model_is_watched_once_before_and_once_after(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("grouped sdpa", 4, 2, 6), zoo.inputs()
    plan = HeadPlan.of({site.path: HeadCount(2, 1, 6) for site in find_sites(model, inputs)})
    passes: list[int] = []
    model.register_forward_hook(lambda *_: passes.append(1))
    apply(model, plan, inputs)
    assert len(passes) == 2
