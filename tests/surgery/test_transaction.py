import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites

NAMES = [
    "nano fused sdpa",
    "nano fused manual",
    "nano separate sdpa",
    "nano separate manual",
    "config",
    "annotated",
    "lucid",
    "lucid to_kv",
    "merged",
    "einsum",
    "child",
    "tensor scale",
    "vision",
    "nano cross",
]
FREE_WIDTH = [name for name in NAMES if not name.startswith(("nano", "vision"))]
GROUPED = ["grouped repeat", "grouped sdpa", "grouped fused"]


def plan_of(sites: tuple[AttentionSite, ...], *counts: tuple[int, int, int]) -> HeadPlan:
    """The counts in turn for the sites in order."""
    return HeadPlan.of({s.path: HeadCount(*counts[i % len(counts)]) for i, s in enumerate(sites)})


def counts(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[tuple[int, int, int]]:
    return [tuple(s.present) for s in find_sites(model, inputs)]


def assert_same_state(model: nn.Module, state: dict[str, Tensor]) -> None:
    assert list(model.state_dict()) == list(state)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("heads", [1, 2, 8, 24])
@pytest.mark.parametrize("name", NAMES)
def test_reheaded_equals_built_with_that_count(zoo: SimpleNamespace, name: str, heads: int, training: bool) -> None:
    model, inputs = zoo.build(name).train(training), zoo.inputs(name)
    state = copy.deepcopy(model.state_dict())
    wanted = (heads, heads, 24 // heads)
    edited = apply_plan(model, plan_of(find_sites(model, inputs), wanted), inputs, hold="width")

    truth = zoo.build(name, heads, None, 24 // heads).train(training)
    truth.load_state_dict({key: value for key, value in state.items() if not key.endswith("scale")}, strict=False)
    torch.testing.assert_close(edited(*inputs), truth(*inputs), rtol=0, atol=1e-6)
    assert set(counts(edited, inputs)) == {wanted}
    assert all(torch.equal(v, state[k]) for k, v in edited.state_dict().items() if not k.endswith("scale"))
    assert_same_state(model, state)
    assert set(counts(model, inputs)) == {(4, 4, 6)}
    assert edited.training is training


@pytest.mark.parametrize("wanted", [(2, 1, 12), (8, 4, 3), (24, 12, 1)])
@pytest.mark.parametrize("name", GROUPED)
def test_reheaded_groups_equal_those_built_so(zoo: SimpleNamespace, name: str, wanted: tuple[int, int, int]) -> None:
    model, inputs = zoo.build(name, 4, 2, 6), zoo.inputs()
    edited = apply_plan(model, plan_of(find_sites(model, inputs), wanted), inputs, hold="width")
    truth = zoo.build(name, *wanted)
    truth.load_state_dict(model.state_dict())
    torch.testing.assert_close(edited(*inputs), truth(*inputs), rtol=0, atol=1e-6)
    assert set(counts(edited, inputs)) == {wanted}


@pytest.mark.parametrize("name", NAMES)
def test_layers_may_differ(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs(name)
    sites = find_sites(model, inputs)
    wanted = [(2, 2, 12), (12, 12, 2)][: len(sites)]
    assert counts(apply_plan(model, plan_of(sites, *wanted), inputs, hold="width"), inputs) == wanted
    wanted = [(1, 1, 6), (3, 3, 6)][: len(sites)]
    assert counts(apply_plan(model, plan_of(sites, *wanted), inputs, hold="head_dim"), inputs) == wanted


@pytest.mark.parametrize("wanted", [(1, 1, 6), (3, 3, 6), (7, 7, 6), (2, 2, 5), (3, 3, 16)])
@pytest.mark.parametrize("name", FREE_WIDTH)
def test_resized_equals_built_with_that_count(zoo: SimpleNamespace, name: str, wanted: tuple[int, int, int]) -> None:
    """Same shapes, so same parameter count; and with the same weights, the same function."""
    model, inputs = zoo.build(name), zoo.inputs(name)
    edited = apply_plan(model, plan_of(find_sites(model, inputs), wanted), inputs, hold="head_dim")
    truth = zoo.build(name, *wanted)
    assert {k: v.shape for k, v in edited.state_dict().items()} == {k: v.shape for k, v in truth.state_dict().items()}
    assert set(counts(edited, inputs)) == {wanted}
    truth.load_state_dict(edited.state_dict())
    torch.testing.assert_close(edited(*inputs), truth(*inputs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("wanted", [(2, 1, 6), (6, 3, 6), (4, 1, 6), (4, 4, 6), (6, 2, 8)])
@pytest.mark.parametrize("name", GROUPED)
def test_resized_groups_equal_those_built_so(zoo: SimpleNamespace, name: str, wanted: tuple[int, int, int]) -> None:
    model, inputs = zoo.build(name, 4, 2, 6), zoo.inputs()
    edited = apply_plan(model, plan_of(find_sites(model, inputs), wanted), inputs, hold="head_dim")
    truth = zoo.build(name, *wanted)
    truth.load_state_dict(edited.state_dict())
    torch.testing.assert_close(edited(*inputs), truth(*inputs), rtol=0, atol=1e-6)
    if wanted[0] * wanted[2] == 24 and name != "grouped fused":  # the queries keep their shape, and so their values
        for old, new in zip(model.layers, edited.layers, strict=True):
            assert torch.equal(old["attn"].wq.weight, new["attn"].wq.weight)
            assert torch.equal(old["attn"].wo.weight, new["attn"].wo.weight)
            assert old["attn"].wk.weight.shape != new["attn"].wk.weight.shape


@pytest.mark.parametrize("name", [*NAMES, *GROUPED])
def test_resizing_there_and_back_gives_the_first_function_with_the_first_weights(
    zoo: SimpleNamespace, name: str
) -> None:
    """Undoing a resize restores every shape and attribute: with the old weights loaded, the old outputs come back."""
    kv_heads = 2 if name in GROUPED else 4
    model, inputs = zoo.build(name, 4, kv_heads, 6), zoo.inputs(name)
    sites = find_sites(model, inputs)
    group = 4 // kv_heads
    small = apply_plan(model, plan_of(sites, (group, 1, 6)), inputs, hold="head_dim")
    smaller = apply_plan(small, plan_of(sites, (3 * group, 3, 6)), inputs, hold="head_dim")
    back = apply_plan(smaller, plan_of(sites, (4, kv_heads, 6)), inputs, hold="head_dim")
    back.load_state_dict(model.state_dict())
    torch.testing.assert_close(back(*inputs), model(*inputs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [*NAMES, *GROUPED])
def test_gradients_reach_every_parameter_of_a_changed_model(zoo: SimpleNamespace, name: str) -> None:
    kv_heads = 2 if name in GROUPED else 4
    model, inputs = zoo.build(name, 4, kv_heads, 6), zoo.inputs(name)
    sites = find_sites(model, inputs)
    for wanted, hold in (((8, 2 * kv_heads, 3), "width"), ((8 // kv_heads, 2, 6), "head_dim")):
        edited = apply_plan(model, plan_of(sites, wanted), inputs, hold=hold).train()
        edited(*inputs).square().mean().backward()
        for parameter_name, parameter in edited.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
            # A key bias cancels in the softmax: its gradient is zero by mathematics.
            assert parameter.grad.abs().sum() > 0 or "bias" in parameter_name, parameter_name


@pytest.mark.parametrize("hold", ["width", "head_dim"])
@pytest.mark.parametrize("name", [*NAMES, *GROUPED])
def test_the_present_plan_is_the_identity(zoo: SimpleNamespace, name: str, hold: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs(name)
    sites = find_sites(model, inputs)
    edited = apply_plan(model, plan_of(sites, (4, 4, 6)), inputs, hold=hold)
    assert edited is not model
    assert_same_state(edited, model.state_dict())
    assert torch.equal(edited(*inputs), model(*inputs))
    assert find_sites(edited, inputs) == sites


def transformer(heads: int = 4, **options: object) -> tuple[nn.Transformer, dict[str, Tensor]]:
    model = nn.Transformer(24, heads, 2, 2, 32, dropout=0.0, batch_first=True, **options)
    mask = model.generate_square_subsequent_mask(6)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    src, tgt = torch.randn(2, 7, 24), torch.randn(2, 6, 24)
    inputs = {"src": src, "tgt": tgt, "tgt_mask": mask}
    return model, {**inputs, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}


MODES = ["train", "eval", "eval no grad"]


def output(model: nn.Module, inputs: dict[str, Tensor], mode: str) -> Tensor:
    with torch.set_grad_enabled(mode != "eval no grad"):
        return model.train(mode == "train")(**inputs).detach()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 24])
def test_a_reheaded_transformer_equals_one_built_with_that_count(heads: int, mode: str) -> None:
    """Also with padding in eval mode, where an odd count meets the nested tensors that were decided at construction."""
    model, inputs = transformer()
    sites = find_sites(model, inputs)
    assert [s.role for s in sites] == ["self", "self", "causal", "cross", "causal", "cross"]
    edited = apply_plan(model, plan_of(sites, (heads, heads, 24 // heads)), inputs, hold="width")
    truth = nn.Transformer(24, heads, 2, 2, 32, dropout=0.0, batch_first=True)
    truth.load_state_dict(edited.state_dict())
    assert_same_state(edited, model.state_dict())
    torch.testing.assert_close(output(edited, inputs, mode), output(truth, inputs, mode), rtol=0, atol=2e-6)


@pytest.mark.parametrize("first", [1, 2, 4])
@pytest.mark.parametrize("second", [1, 2, 3])
@pytest.mark.parametrize("hold", ["width", "head_dim"])
def test_mixed_encoders_run_on_padded_input_in_eval_mode(first: int, second: int, hold: str) -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    assert model.use_nested_tensor
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    inputs = {"src": torch.randn(2, 7, 24), "src_key_padding_mask": padding}
    wanted = [(h, h, 24 // h if hold == "width" else 6) for h in (first, second)]
    edited = apply_plan(model, plan_of(find_sites(model, inputs), *wanted), inputs, hold=hold)
    assert [tuple(s.present) for s in find_sites(edited, inputs)] == wanted
    real = ~padding  # nested tensors fill padded positions with zeros, the other paths do not
    expected = output(edited, inputs, "train")[real]
    for mode in MODES[1:]:
        torch.testing.assert_close(output(edited, inputs, mode)[real], expected, rtol=0, atol=2e-6)
    even_and_whole = all(h % 2 == 0 and h * d == 24 for h, _, d in wanted)
    assert edited.use_nested_tensor is even_and_whole


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wanted", [(3, 3, 6), (2, 1, 6), (4, 2, 6), (5, 5, 8)])
def test_a_resized_transformer_equals_one_built_from_such_blocks(wanted: tuple[int, int, int], mode: str) -> None:
    model, inputs = transformer()
    edited = apply_plan(model, plan_of(find_sites(model, inputs), wanted), inputs, hold="head_dim")
    heads, kv_heads, head_dim = wanted
    truth = transformer()[0]
    for name, module in list(truth.named_modules()):
        if isinstance(module, nn.MultiheadAttention):
            block = HeadedAttention(24, heads, batch_first=True, head_dim=head_dim, num_kv_heads=kv_heads)
            truth.set_submodule(name, block)
    truth.encoder.use_nested_tensor = False
    truth.load_state_dict(edited.state_dict())
    assert [tuple(s.present) for s in find_sites(edited, inputs)] == [wanted] * 6
    assert sum(p.numel() for p in edited.parameters()) == sum(p.numel() for p in truth.parameters())
    torch.testing.assert_close(output(edited, inputs, mode), output(truth, inputs, mode), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"kdim": 10, "vdim": 14},
        {"bias": False},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"dropout": 0.3, "batch_first": True},
    ],
    ids=str,
)
def test_a_resized_multihead_attention_keeps_its_options_and_what_keeps_its_shape(options: dict[str, float]) -> None:
    model = nn.MultiheadAttention(24, 4, **options)
    torch.nn.init.normal_(model.out_proj.weight)
    q, k, v = (
        torch.randn(7, 2, 24),
        torch.randn(7, 2, options.get("kdim", 24)),
        torch.randn(7, 2, options.get("vdim", 24)),
    )
    edited = apply_plan(model, HeadPlan.of({"": HeadCount(4, 2, 6)}), (q, k, v), hold="head_dim")
    assert isinstance(edited, HeadedAttention)
    queries = model.in_proj_weight[:24] if model.in_proj_weight is not None else model.q_proj_weight
    assert torch.equal(edited.q_proj.weight, queries)
    assert torch.equal(edited.out_proj.weight, model.out_proj.weight)
    assert edited.k_proj.weight.shape == (12, options.get("kdim", 24))
    assert (edited.bias_k is not None, edited.add_zero_attn) == (model.bias_k is not None, model.add_zero_attn)
    assert (edited.dropout, edited.batch_first) == (model.dropout, model.batch_first)
    assert (edited.q_proj.bias is None) is (model.in_proj_bias is None)


def test_grouping_alone_is_possible_under_hold_width(zoo: SimpleNamespace) -> None:
    """Heads and width stay; only keys and values change their shape."""
    model, inputs = zoo.build("grouped repeat", 4, 4, 6), zoo.inputs()
    edited = apply_plan(model, plan_of(find_sites(model, inputs), (4, 1, 6)), inputs, hold="width")
    assert torch.equal(edited.layers[0]["attn"].wq.weight, model.layers[0]["attn"].wq.weight)
    assert set(counts(edited, inputs)) == {(4, 1, 6)}


def test_the_seed_decides_the_fresh_weights_and_nothing_else_does(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    sites = find_sites(model, inputs)
    before = torch.get_rng_state()
    first = apply_plan(model, plan_of(sites, (3, 3, 6)), inputs, hold="head_dim", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.randn(5)
    again = apply_plan(model, plan_of(sites, (3, 3, 6)), inputs, hold="head_dim", seed=1)
    other = apply_plan(model, plan_of(sites, (3, 3, 6)), inputs, hold="head_dim", seed=2)
    mixed = apply_plan(model, plan_of(sites, (2, 2, 6), (3, 3, 6)), inputs, hold="head_dim", seed=1)
    assert_same_state(again, first.state_dict())
    weight = first.layers[1]["attn"].to_qkv.weight
    assert not torch.equal(other.layers[1]["attn"].to_qkv.weight, weight)
    assert torch.equal(mixed.layers[1]["attn"].to_qkv.weight, weight), "another site's count moved this one's weights"
    assert not torch.equal(first.layers[0]["attn"].to_qkv.weight, weight)
    bound = 24**-0.5  # nn.Linear draws uniformly within 1 / sqrt(fan_in)
    assert 0.95 * bound < weight.abs().max() <= bound


def test_device_type_gradients_hooks_and_modes_stay() -> None:
    model = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True, dtype=torch.float64)
    model.self_attn.in_proj_weight.requires_grad_(False)
    model.self_attn.eval()
    calls: list[str] = []
    model.self_attn.register_forward_hook(lambda *_: calls.append("after"))
    model.self_attn.register_forward_pre_hook(lambda *_, **__: calls.append("before"), with_kwargs=True)
    inputs = (torch.randn(2, 7, 24, dtype=torch.float64),)
    edited = apply_plan(model, HeadPlan.of({"self_attn": HeadCount(3, 3, 6)}), inputs, hold="head_dim")
    block = edited.self_attn
    assert isinstance(block, HeadedAttention)
    assert {p.dtype for p in edited.parameters()} == {torch.float64}
    assert not any(p.weight.requires_grad for p in (block.q_proj, block.k_proj, block.v_proj))
    assert block.q_proj.bias.requires_grad
    assert block.out_proj.weight.requires_grad
    assert edited.training
    assert not block.training
    calls.clear()
    edited(*inputs)
    assert calls == ["before", "after"]
    meta = apply_plan(
        model.to("meta"), HeadPlan.of({"self_attn": HeadCount(3, 1, 6)}), (inputs[0].to("meta"),), hold="head_dim"
    )
    assert {p.device.type for p in meta.parameters()} == {"meta"}


def test_in_place_changes_the_model_itself(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    plan = plan_of(find_sites(model, inputs), (3, 3, 6))
    assert apply_plan(model, plan, inputs, hold="head_dim", copy=False) is model
    assert set(counts(model, inputs)) == {(3, 3, 6)}


def test_known_sites_spare_the_first_look(zoo: SimpleNamespace) -> None:
    seen: list[nn.Module] = []

    class Counting(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *x: Tensor) -> Tensor:
            seen.append(self)
            return self.inner(*x)

    for inner, plan_counts, hold, passes in (
        (zoo.build("lucid"), (2, 2, 12), "width", 1),
        (zoo.build("lucid"), (3, 3, 6), "head_dim", 2),  # which projections to resize is seen, not known
        (nn.TransformerEncoderLayer(24, 4, 32, batch_first=True), (3, 3, 6), "head_dim", 1),
    ):
        model, inputs = Counting(inner), zoo.inputs()
        sites = find_sites(model, inputs)
        seen.clear()
        edited = apply_plan(model, plan_of(sites, plan_counts), inputs, hold=hold, sites=sites)
        assert len(seen) == passes
        assert set(counts(edited, inputs)) == {plan_counts}


def test_a_shared_block_changes_as_one(zoo: SimpleNamespace) -> None:
    class Shared(nn.Module):
        def __init__(self, block: nn.Module) -> None:
            super().__init__()
            self.layers = nn.ModuleList([block, block, block])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = x + (
                    layer(x) if not isinstance(layer, nn.MultiheadAttention | HeadedAttention) else layer(x, x, x)[0]
                )
            return x

    for block in (zoo.LucidAttention(4, 6), nn.MultiheadAttention(24, 4, batch_first=True)):
        model, inputs = Shared(block), zoo.inputs()
        for count, hold in (((2, 2, 12), "width"), ((3, 3, 6), "head_dim")):
            edited = apply_plan(model, HeadPlan.of({"layers.0": HeadCount(*count)}), inputs, hold=hold)
            assert counts(edited, inputs) == [count]
            assert edited.layers[0] is edited.layers[1] is edited.layers[2]


def test_a_compiled_model_can_be_changed(zoo: SimpleNamespace) -> None:
    model, inputs = torch.compile(zoo.build("lucid"), backend="eager"), zoo.inputs()
    sites = find_sites(model, inputs)
    edited = apply_plan(model, plan_of(sites, (3, 3, 6)), inputs, hold="head_dim")
    assert set(counts(edited, inputs)) == {(3, 3, 6)}
    eager = copy.deepcopy(edited._orig_mod)
    torch.testing.assert_close(edited(*inputs), eager(*inputs), rtol=0, atol=1e-6)


def test_every_problem_of_a_plan_is_named_at_once(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    plan = HeadPlan.of({"layers.0.attn": HeadCount(5, 5, 6), "layer.1": HeadCount(4, 4, 6)})
    with pytest.raises(SurgeryError) as caught:
        apply_plan(model, plan, inputs, hold="width")
    assert str(caught.value) == (
        "3 problems:\n"
        "  - layer.1: the model has no such attention block; it has layers.0.attn, layers.1.attn\n"
        "  - layers.0.attn: 5x6 makes a width of 30, but hold: width keeps 24; "
        "legal numbers of heads: 1, 2, 3, 4, 6, 8, 12, 24\n"
        "  - layers.1.attn: the plan says nothing about this block; a plan names every block, at present 4x6"
    )


def test_what_cannot_be_copied_or_replaced_in_place_says_so(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    model.trace = torch.ones(1, requires_grad=True) * 2
    plan = plan_of(find_sites(model, inputs), (2, 2, 12))
    with pytest.raises(
        SurgeryError, match=r"^Stack cannot be copied \(RuntimeError: Only Tensors created explicitly .*use copy=False"
    ):
        apply_plan(model, plan, inputs, hold="width")
    assert apply_plan(model, plan, inputs, hold="width", copy=False) is model
    x = torch.randn(7, 2, 24)
    with pytest.raises(SurgeryError) as caught:
        apply_plan(
            nn.MultiheadAttention(24, 4), HeadPlan.of({"": HeadCount(3, 3, 6)}), (x, x, x), hold="head_dim", copy=False
        )
    assert str(caught.value) == "the model is itself the attention block that changes its size: use copy=True"


def test_a_copy_that_shares_with_the_model_is_refused(zoo: SimpleNamespace) -> None:
    class Whole(nn.Module):
        def __init__(self, block: nn.Module) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x)

    class Handing(Whole):
        def __deepcopy__(self, memo: object) -> "Handing":
            return self

    class Viewing(Whole):
        def __deepcopy__(self, memo: dict[int, object]) -> "Viewing":
            made = Viewing(copy.deepcopy(self.block, memo))
            made.block.norm.weight = nn.Parameter(self.block.norm.weight.data)
            return made

    def block() -> nn.Module:
        return zoo.build("lucid").layers[0]["attn"]

    for model, common in (
        (nn.Sequential(Handing(block())), "0"),
        (Handing(block()), "the model"),
        (nn.Sequential(Viewing(block())), "0.block.norm.weight"),
    ):
        if common.endswith("weight"):
            model[0].block.norm = nn.LayerNorm(24)
        inputs = zoo.inputs()
        plan = plan_of(find_sites(model, inputs), (2, 2, 12))
        with pytest.raises(SurgeryError) as caught:
            apply_plan(model, plan, inputs, hold="width")
        assert str(caught.value) == (
            f"{type(model).__name__} cannot be copied: its copy shares {common} with it, which would change too; "
            "let __deepcopy__ copy everything, or use copy=False to change it in place"
        )
        assert set(counts(model, inputs)) == {(4, 4, 6)}
        assert apply_plan(model, plan, inputs, hold="width", copy=False) is model
