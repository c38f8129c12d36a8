"""The comparison can fail: whatever is cut wrongly is found, and put back."""

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.surgery import find_sites
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.cutting import Cuts
from headtune.surgery.proof import Unproven, followed, outputs_after, proven

KEPT = [0, 2]


def attempt(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    spoil: Callable[[nn.Module], None] = lambda model: None,
    *,
    cut: dict[str, list[int]] | None = None,
    plan: HeadCount | None = None,
    copy: bool = True,
) -> nn.Module:
    """Prune every block to KEPT, by a cut that keeps *cut* instead, and spoil the result."""
    sites = find_sites(model, inputs)
    found = followed(model, inputs, sites)
    right = Cuts.of(sites, found, HeadMask.of({site.path: KEPT for site in sites}))
    made = right if cut is None else Cuts.of(sites, found, HeadMask.of(cut))
    expected = outputs_after(model, inputs, sites, right.silence)

    def edit(opened: nn.Module) -> None:
        made.make(opened)
        spoil(opened)

    counts = HeadPlan.of({site.path: plan or made.cuts[0].wanted for site in sites})
    return proven(model, counts, inputs, sites, edit=edit, expected=expected, copy=copy)


def rolled(name: str, dim: int) -> Callable[[nn.Module], None]:
    def spoil(model: nn.Module) -> None:
        _, module = owner(model, name)
        module.weight = nn.Parameter(module.weight.detach().roll(1, dim))

    return spoil


def test_the_right_cut_passes(zoo: SimpleNamespace) -> None:
    attempt(zoo.build("lucid"), zoo.inputs())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_wrong_head_is_found(zoo: SimpleNamespace, dtype: torch.dtype) -> None:
    model, (x,) = zoo.build("lucid").to(dtype), zoo.inputs()
    every = {"layers.0.attn": KEPT, "layers.1.attn": KEPT}
    for path in every:
        with pytest.raises(Unproven) as caught:
            attempt(model, (x.to(dtype),), cut={**every, path: [0, 3]})
        (problem,) = caught.value.problems
        assert problem.startswith(
            f"layers.0.attn with 2x6, layers.1.attn with 2x6: what {path}.to_out.0.weight puts out is off by "
        )
        assert problem.endswith(
            " from what it should be; leave the block as it is, or let the model return nothing that depends on its "
            "heads but through their output projection"
        )
        assert caught.value.blamed == frozenset()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "dim"), [("to_qkv", 0), ("to_qkv", 1), ("to_out.0", 1)])
def test_a_rolled_column_is_found(zoo: SimpleNamespace, name: str, dim: int, dtype: torch.dtype) -> None:
    model, (x,) = zoo.build("lucid").to(dtype), zoo.inputs()
    with pytest.raises(Unproven, match=r"^layers\.0\.attn with 2x6, layers\.1\.attn with 2x6: what layers\.1\.attn"):
        attempt(model, (x.to(dtype),), rolled(f"layers.1.attn.{name}.weight", dim))


def test_other_counts_are_found_and_blamed(zoo: SimpleNamespace) -> None:
    def miscount(model: nn.Module) -> None:
        model.layers[1]["attn"].heads = 1

    with pytest.raises(Unproven) as caught:
        attempt(zoo.build("lucid"), zoo.inputs(), miscount)
    assert str(caught.value) == (
        "layers.1.attn: 2x6 should be left, but it computes 1x12; "
        "let forward take its counts from attributes of the module"
    )
    assert caught.value.blamed == {"layers.1.attn"}


def test_a_forward_that_raises_is_blamed_on_the_block_that_ran(zoo: SimpleNamespace) -> None:
    def shorten(model: nn.Module) -> None:
        model.layers[1]["attn"].to_qkv = nn.Linear(24, 37)

    with pytest.raises(Unproven) as caught:
        attempt(zoo.build("lucid"), zoo.inputs(), shorten)
    (problem,) = caught.value.problems
    assert problem.startswith("layers.1.attn with 2x6: forward raises RuntimeError: ")
    assert problem.endswith(
        "; something still counts 4 heads, such as a number written into forward, a mask for every head, "
        "or biases like those of ALiBi: let forward read the count from the block, or leave the block as it is"
    )
    assert caught.value.blamed == {"layers.1.attn"}


def test_a_table_that_is_sized_by_heads_is_named(zoo: SimpleNamespace) -> None:
    model = zoo.build("lucid")
    model.layers[0]["attn"].table = nn.Embedding(9, 4)

    def shorten(edited: nn.Module) -> None:
        edited.layers[0]["attn"].to_qkv = nn.Linear(24, 37)

    with pytest.raises(Unproven, match=r"; table\.weight \(9, 4\) is a table for 4 heads, of which none can go: leave"):
        attempt(model, zoo.inputs(), shorten)


def test_an_attention_that_is_gone_is_found(zoo: SimpleNamespace) -> None:
    class Silent(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    def spoil(model: nn.Module) -> None:
        model.layers[0]["attn"] = Silent()

    with pytest.raises(Unproven, match=r"layers\.0\.attn: 2x6 should be left, but it computes no attention"):
        attempt(zoo.build("lucid"), zoo.inputs(), spoil)


def test_all_attention_gone_is_found_too(zoo: SimpleNamespace) -> None:
    def spoil(model: nn.Module) -> None:
        model.forward = lambda x: x  # type: ignore[method-assign]

    with pytest.raises(Unproven, match=r"^after the change, no attention was seen"):
        attempt(zoo.build("lucid"), zoo.inputs(), spoil)


@pytest.mark.parametrize("name", ["lucid", "grouped sdpa"])
def test_a_failed_edit_leaves_the_model_bitwise_as_it_was(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name).train(), zoo.inputs()
    parameters, state = dict(model.named_parameters()), copy.deepcopy(model.state_dict())
    attributes = {path: dict(vars(module)) for path, module in model.named_modules()}
    random = torch.get_rng_state()

    def spoil(edited: nn.Module) -> None:
        assert edited is model
        edited.layers[0]["attn"].heads = 3
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(model, inputs, spoil, copy=False)
    with pytest.raises(Unproven):
        attempt(model, inputs, copy=False, plan=HeadCount(3, 3, 6))
    assert dict(model.named_parameters()).keys() == parameters.keys()
    assert all(parameters[name] is parameter for name, parameter in model.named_parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    for path, module in model.named_modules():
        assert all(vars(module)[key] is value for key, value in attributes[path].items())
    assert torch.equal(torch.get_rng_state(), random)


def test_a_fused_block_is_put_back_as_well() -> None:
    model, x = nn.TransformerEncoderLayer(24, 4, 16, batch_first=True), torch.randn(2, 5, 24)
    block, weight = model.self_attn, model.self_attn.in_proj_weight
    with pytest.raises(Unproven):
        attempt(model, (x,), rolled("self_attn.out_proj.weight", 1), copy=False)
    assert model.self_attn is block
    assert block.in_proj_weight is weight
    assert block.num_heads == 4


def test_heads_that_cannot_be_followed_are_all_refused(zoo: SimpleNamespace) -> None:
    model = zoo.build("merged")
    model.layers[0]["attn"].k_proj.weight = model.layers[0]["attn"].q_proj.weight
    torch.nn.utils.parametrizations.weight_norm(model.layers[1]["attn"].out_proj)
    with pytest.raises(SurgeryError) as caught:
        attempt(model, zoo.inputs())
    assert caught.value.problems == (
        "layers.0.attn: layers.0.attn.q_proj.weight is also layers.0.attn.k_proj.weight: "
        "untie them first, or change neither",
        "layers.1.attn: its output is read by a weight that is computed in the forward pass; "
        "remove weight_norm, quantisation or the like first",
    )


def test_a_bias_that_another_module_holds_is_found(zoo: SimpleNamespace) -> None:
    model = zoo.build("merged")
    model.layers[0]["attn"].k_proj.bias = model.layers[0]["attn"].q_proj.bias
    with pytest.raises(SurgeryError, match=r"^layers\.0\.attn: layers\.0\.attn\.q_proj\.bias is also"):
        attempt(model, zoo.inputs())


def test_weights_without_values_are_refused(zoo: SimpleNamespace) -> None:
    model = zoo.build("merged").to("meta")
    with pytest.raises(SurgeryError) as caught:
        attempt(model, tuple(x.to("meta") for x in zoo.inputs()))
    assert str(caught.value) == (
        "layers.0.norm.weight is on the meta device (offloaded, or not loaded), one of 24 such weights; nothing can be "
        "proven without their values: load the whole model first"
    )


def test_a_forward_that_minds_gradients_is_refused(zoo: SimpleNamespace) -> None:
    class Minding(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            if y.requires_grad:
                raise ValueError("no gradients here")
            return y

    model = zoo.build("merged")
    model.layers[1]["attn"].q_proj = Minding(24, 24)
    with pytest.raises(SurgeryError) as caught:
        attempt(model, zoo.inputs())
    assert str(caught.value) == (
        "heads cannot be followed: with gradients, and numbers of heads for values, forward raises ValueError: "
        "no gradients here in layers.1.attn.q_proj; let it run whatever its values"
    )


def test_no_sites_need_no_following() -> None:
    assert followed(nn.Linear(2, 2), (torch.ones(1, 2),), []) == {}
