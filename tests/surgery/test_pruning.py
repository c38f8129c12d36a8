"""A pruned model against the whole one whose output projections were silenced by hand."""

import copy
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import headtune
from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites, prune
from headtune.surgery.find import surveyed

PLAIN = (
    *("nano fused sdpa", "nano fused manual", "nano separate sdpa", "nano separate manual", "config", "annotated"),
    *("lucid", "lucid to_kv", "merged", "einsum", "child", "tensor scale", "vision", "nano cross"),
)
FREE_WIDTH = tuple(name for name in PLAIN if not name.startswith(("nano", "vision")))
GROUPED = ("grouped fused", "grouped repeat", "grouped sdpa")
TOLERANCE = 1e-10  # in float64; sums of at most 40 products in another order differ by 1e-15


def zeroed(model: nn.Module, gone: Mapping[str, Iterable[int]], head_dim: int) -> nn.Module:
    """A copy of *model* in which the columns of the heads that go are zero: head h has columns h*D … h*D + D - 1."""
    silent = copy.deepcopy(model)
    with torch.no_grad():
        for name, heads in gone.items():
            for head in heads:
                silent.get_parameter(name)[:, head * head_dim : (head + 1) * head_dim] = 0
    return silent


def first(output: object) -> Tensor:
    while not isinstance(output, Tensor):
        output = output[0]  # type: ignore[index]
    return output


def check(model: nn.Module, inputs: tuple[Tensor, ...], kept: dict[str, list[int]]) -> nn.Module:
    """Prune in float64, and compare with the columns zeroed by hand; a wrong head must not compare."""
    model, inputs = model.double(), tuple(x.double() for x in inputs)
    blocks = surveyed(model, inputs).blocks
    head_dim = next(iter(blocks.values())).site.head_dim
    outs = {path: next(iter(block.call.projections.out)) for path, block in blocks.items()}
    gone = {outs[path]: sorted(set(range(blocks[path].site.num_heads)) - set(heads)) for path, heads in kept.items()}
    pruned = prune(model, kept, inputs)
    truth = first(zeroed(model, gone, head_dim)(*inputs))
    torch.testing.assert_close(first(pruned(*inputs)), truth, rtol=0, atol=TOLERANCE)
    wrong = {name: [(head + 1) % 4 for head in heads] for name, heads in gone.items()}
    assert float((first(zeroed(model, wrong, head_dim)(*inputs)) - truth).detach().abs().max()) > 1e-4
    return pruned


@pytest.mark.parametrize("heads", [[0], [3], [1, 2], [0, 2, 3]])
@pytest.mark.parametrize("name", PLAIN)
def test_what_is_left_computes_what_it_did(zoo: SimpleNamespace, name: str, heads: list[int]) -> None:
    model, inputs = zoo.build(name).eval(), zoo.inputs(name)
    pruned = check(model, inputs, {site.path: heads for site in find_sites(model, inputs)})
    doubles = tuple(x.double() for x in inputs)
    assert {site.present for site in find_sites(pruned, doubles)} == {HeadCount(len(heads), len(heads), 6)}


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("name", GROUPED)
def test_whole_groups_or_as_many_of_each_may_go(zoo: SimpleNamespace, name: str, kv_heads: int) -> None:
    kept = {1: [[0], [1, 3], [0, 1, 2]], 2: [[2, 3], [0, 1], [0, 3], [1, 2]]}[kv_heads]
    left = {1: [(1, 1), (2, 1), (3, 1)], 2: [(2, 1), (2, 1), (2, 2), (2, 2)]}[kv_heads]
    for heads, counts in zip(kept, left, strict=True):
        model, inputs = zoo.build(name, 4, kv_heads), zoo.inputs()
        pruned = check(model, inputs, {site.path: heads for site in find_sites(model, inputs)})
        sites = find_sites(pruned, tuple(x.double() for x in inputs))
        assert {(site.num_heads, site.num_kv_heads, site.head_dim) for site in sites} == {(*counts, 6)}


@pytest.mark.parametrize("name", FREE_WIDTH)
def test_it_has_the_parameters_of_a_model_built_so(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs(name)
    pruned = prune(model, {site.path: [1, 2, 3] for site in find_sites(model, inputs)}, inputs)
    built = zoo.build(name, 3)
    shapes = {key: value.shape for key, value in pruned.state_dict().items()}
    assert shapes == {key: value.shape for key, value in built.state_dict().items()}
    built.load_state_dict(pruned.state_dict())
    torch.testing.assert_close(pruned(*inputs), built(*inputs), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "kept", "counts"), [(name, [2, 3], (2, 1)) for name in GROUPED])
def test_so_have_groups(zoo: SimpleNamespace, name: str, kept: list[int], counts: tuple[int, int]) -> None:
    model, inputs = zoo.build(name, 4, 2), zoo.inputs()
    pruned = prune(model, {site.path: kept for site in find_sites(model, inputs)}, inputs)
    built = zoo.build(name, *counts)
    built.load_state_dict(pruned.state_dict())
    torch.testing.assert_close(pruned(*inputs), built(*inputs), rtol=0, atol=1e-6)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["nano fused sdpa", "nano separate manual", "vision"])
def test_each_head_takes_its_rows_biases_and_columns_along(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs()
    biases = 3 * 6 if next(iter(model.layers[0]["attn"].children())).bias is not None else 0
    pruned = prune(model, {"layers.1.attn": [0, 3]}, inputs)
    assert size(model) - size(pruned) == 2 * (3 * 6 * 24 + biases + 6 * 24)


def test_sites_that_are_not_named_keep_everything(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    pruned = prune(model, {"layers.0.attn": [2]}, inputs)
    assert [site.present for site in find_sites(pruned, inputs)] == [HeadCount(1, 1, 6), HeadCount(4, 4, 6)]
    same = pruned.layers[1].state_dict()
    assert all(torch.equal(value, same[key]) for key, value in model.layers[1].state_dict().items())
    untouched = prune(model, {}, inputs)
    assert untouched is not model
    assert torch.equal(untouched(*inputs), model(*inputs))


def test_masks_and_mappings_are_the_same(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    kept = {"layers.0.attn": [2, 1]}
    one, other = prune(model, kept, inputs), headtune.prune(model, HeadMask.of(kept), inputs)
    assert torch.equal(one(*inputs), other(*inputs))


def test_heads_go_again_and_again(zoo: SimpleNamespace) -> None:
    for name in ("nano fused sdpa", "lucid", "merged", "grouped sdpa"):
        model, inputs = zoo.build(name).double(), tuple(x.double() for x in zoo.inputs())
        paths = [site.path for site in find_sites(model, inputs)]
        twice = prune(
            prune(model, {path: [0, 2, 3] for path in paths}, inputs), {path: [0, 2] for path in paths}, inputs
        )
        once = prune(model, {path: [0, 3] for path in paths}, inputs)
        torch.testing.assert_close(twice(*inputs), once(*inputs), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["lucid", "einsum", "nano fused sdpa", "vision"])
def test_a_reheaded_model_is_pruned_by_its_new_heads(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name), zoo.inputs()
    plan = HeadPlan.of({site.path: HeadCount(8, 8, 3) for site in find_sites(model, inputs)})
    reheaded = apply_plan(model, plan, inputs, hold="width")
    pruned = check(reheaded, inputs, {path: [0, 5, 6] for path in plan.paths})
    assert {site.present for site in find_sites(pruned, tuple(x.double() for x in inputs))} == {HeadCount(3, 3, 3)}


X = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))
Y = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"kdim": 9, "vdim": 10},
        {"batch_first": True},
    ],
)
def test_multi_head_attention_by_itself(options: dict[str, int]) -> None:
    """Its second output, weights averaged over heads, rightly changes."""
    block = nn.MultiheadAttention(24, 4, **options).double()
    inputs = (X.double(), *(torch.randn(2, 5, size, dtype=torch.float64) for size in (block.kdim, block.vdim)))
    pruned = prune(block, {"": [0, 3]}, inputs)
    assert isinstance(pruned, HeadedAttention)
    output, weights = pruned(*inputs)
    truth = zeroed(block, {"out_proj.weight": [1, 2]}, 6)(*inputs)[0]
    torch.testing.assert_close(output, truth, rtol=0, atol=TOLERANCE)
    _, by_head = block(*inputs, average_attn_weights=False)
    torch.testing.assert_close(weights, by_head[:, [0, 3]].mean(1), rtol=0, atol=TOLERANCE)


def test_a_model_that_returns_averaged_weights() -> None:
    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.MultiheadAttention(24, 4, batch_first=True) for _ in range(2))

        def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
            y, one = self.first(x, x, x)
            z, other = self.second(y, y, y)
            return z, [one, other]

    model = Maps().double()
    pruned = prune(model, {"first": [0, 1], "second": [3]}, (X.double(),))
    truth = zeroed(model, {"first.out_proj.weight": [2, 3], "second.out_proj.weight": [0, 1, 2]}, 6)
    torch.testing.assert_close(pruned(X.double())[0], truth(X.double())[0], rtol=0, atol=TOLERANCE)


def test_transformer() -> None:
    model = nn.Transformer(24, 4, 2, 1, 32, dropout=0.0, batch_first=True).double()
    inputs = (Y.double(), X.double())
    paths = [site.path for site in find_sites(model, inputs)]
    assert len(paths) == 4
    pruned = prune(model, {path: [1, 2] for path in paths}, inputs)
    truth = zeroed(model, {f"{path}.out_proj.weight": [0, 3] for path in paths}, 6)
    torch.testing.assert_close(pruned(*inputs), truth(*inputs), rtol=0, atol=TOLERANCE)
    assert size(model) - size(pruned) == 4 * 2 * (3 * 6 * 25 + 6 * 24)


@pytest.mark.parametrize("kept", [[0, 1], [1, 2, 3]])
def test_an_encoder_on_its_fast_path_with_nested_tensors(kept: list[int]) -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).double().eval()
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 3:] = True
    inputs = {"src": X.double(), "src_key_padding_mask": padding}
    pruned = prune(encoder, {f"layers.{n}.self_attn": kept for n in range(2)}, inputs)
    gone = sorted({0, 1, 2, 3} - set(kept))
    truth = zeroed(encoder, {f"layers.{n}.self_attn.out_proj.weight": gone for n in range(2)}, 6)
    assert encoder.use_nested_tensor
    with torch.inference_mode():
        real = ~padding
        torch.testing.assert_close(pruned(**inputs)[real], truth(**inputs)[real], rtol=0, atol=TOLERANCE)


def test_only_encoders_that_change_lose_their_nested_tensors() -> None:
    def encoder() -> nn.TransformerEncoder:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 32, batch_first=True), 1)

    pruned = prune(nn.Sequential(encoder(), encoder()).eval(), {"0.layers.0.self_attn": [1]}, (X,))
    assert [one.use_nested_tensor for one in pruned] == [False, True]


def test_training_mode_dropout_hooks_gradients_type_and_device_stay() -> None:
    encoder = nn.TransformerEncoderLayer(24, 4, 32, dropout=0.3, batch_first=True, dtype=torch.bfloat16)
    encoder.linear1.eval()
    encoder.self_attn.in_proj_weight.requires_grad_(False)
    called: list[str] = []
    encoder.self_attn.register_forward_hook(lambda *_: called.append("block"))
    encoder.linear2.register_forward_pre_hook(lambda *_: called.append("linear"))
    pruned = prune(encoder, {"self_attn": [0, 2]}, (X.bfloat16(),))
    block = pruned.self_attn
    assert isinstance(block, HeadedAttention)
    assert (pruned.training, pruned.linear1.training, block.training, block.dropout) == (True, False, True, 0.3)
    assert {parameter.dtype for parameter in pruned.parameters()} == {torch.bfloat16}
    assert [block.q_proj.weight.requires_grad, block.v_proj.bias.requires_grad] == [False, True]
    called.clear()
    pruned(X.bfloat16())
    assert called == ["block", "linear"]


def test_own_linear_hooks_and_frozen_weights_stay(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("merged"), zoo.inputs()
    linear = model.layers[0]["attn"].q_proj
    linear.weight.requires_grad_(False)
    linear.register_forward_hook(lambda *_: None)
    pruned = prune(model, {"layers.0.attn": [1]}, inputs).layers[0]["attn"].q_proj
    assert len(pruned._forward_hooks) == 1
    assert (pruned.weight.requires_grad, pruned.bias.requires_grad) == (False, True)


def test_the_result_can_be_trained_wherever_it_was_made(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    with torch.inference_mode():
        pruned = prune(model, {"layers.0.attn": [1]}, inputs)
    pruned(*inputs).sum().backward()
    assert all(parameter.grad is not None for parameter in pruned.parameters())


def test_a_model_itself_is_edited_on_demand(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("nano fused sdpa"), zoo.inputs()
    truth = zeroed(model, {"layers.0.attn.c_proj.weight": [0, 1]}, 6)
    assert prune(model, {"layers.0.attn": [2, 3]}, inputs, copy=False) is model
    torch.testing.assert_close(model(*inputs), truth(*inputs), rtol=0, atol=1e-6)


def untouched(model: nn.Module) -> Callable[[], None]:
    """A check that *model* is as it is now: the same objects, the same bits, the same random state."""
    modules = {path: (module, dict(vars(module))) for path, module in model.named_modules()}
    parameters = {name: (one, one.detach().clone()) for name, one in model.named_parameters()}
    random = torch.get_rng_state()

    def same() -> None:
        assert dict(model.named_modules()) == {p: m for p, (m, _) in modules.items()}
        for module, attributes in modules.values():
            assert vars(module).keys() == attributes.keys()
            assert all(vars(module)[name] is value for name, value in attributes.items())
        for name, one in model.named_parameters():
            assert one is parameters[name][0]
            assert torch.equal(one, parameters[name][1])
            assert one.grad is None
        assert torch.equal(torch.get_rng_state(), random)

    return same


@pytest.mark.parametrize("name", [*PLAIN, *GROUPED])
def test_the_persons_model_is_left_as_it_was(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name).train(), zoo.inputs(name)
    same = untouched(model)
    prune(model, {find_sites(model, inputs)[0].path: [2, 3]}, inputs)
    same()


class Blocks:
    """Self-attention that pruning refuses, each for the reason beside it."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.head_dim = 4, 6
            self.q, self.k, self.v, self.o = (nn.Linear(24, 24) for _ in range(4))

        def split(self, x: Tensor) -> Tensor:
            return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        def attend(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(*(self.split(f(x)) for f in (self.q, self.k, self.v)))

        def forward(self, x: Tensor) -> Tensor:
            return self.o(self.attend(x).transpose(1, 2).flatten(2))

    class Biased(Plain):
        """As T5: a table of position biases with one column per head."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def attend(self, x: Tensor) -> Tensor:
            bias = self.table(torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])[None] + 4).permute(2, 0, 1)
            q, k, v = (self.split(f(x)) for f in (self.q, self.k, self.v))
            return (q @ k.mT + bias).softmax(-1) @ v

    class Slopes(Plain):
        """As ALiBi: slopes that follow from a number written down."""

        def attend(self, x: Tensor) -> Tensor:
            slopes = torch.tensor([0.5**n for n in range(4)])[:, None, None]
            distance = (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])[None]).abs()
            q, k, v = (self.split(f(x)) for f in (self.q, self.k, self.v))
            return (q @ k.mT - slopes * distance).softmax(-1) @ v

    class Statistics(Plain):
        """Returns something of its heads that does not go through the output projection."""

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            y = self.attend(x)
            return self.o(y.transpose(1, 2).flatten(2)), y.square().mean((1, 3))

    class Scaled(Plain):
        """Its own kind of nn.Linear, with one more parameter for every feature."""

        class Linear(nn.Linear):
            def __init__(self) -> None:
                super().__init__(24, 24)
                self.gain = nn.Parameter(torch.ones(24))

            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) * self.gain

        def __init__(self) -> None:
            super().__init__()
            self.v = self.Linear()


COUNTS = (
    "something still counts 4 heads, such as a number written into forward, a mask for every head, "
    "or biases like those of ALiBi: let forward read the count from the block, or leave the block as it is"
)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("block", "start", "end"),
    [
        (
            "Biased",
            "0 with 2x6: forward raises RuntimeError: ",
            "; table.weight (9, 4) is a table for 4 heads, of which none can go: leave them as they are",
        ),
        ("Slopes", "0 with 2x6: forward raises RuntimeError: ", f"; {COUNTS}"),
        ("Scaled", "0 with 2x6: forward raises RuntimeError: ", f"; {COUNTS}"),
        (
            "Statistics",
            "0 with 2x6: what it returns is off by ",
            " from what it should be; leave the block as it is, or let the model return nothing that depends on its "
            "heads but through their output projection",
        ),
    ],
)
def test_what_cannot_be_pruned_is_refused_and_undone(block: str, start: str, end: str, in_place: bool) -> None:
    model = nn.Sequential(getattr(Blocks, block)())
    same = untouched(model)
    with pytest.raises(SurgeryError) as caught:
        prune(model, {"0": [1, 2]}, (X,), copy=not in_place)
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(end)
    same()


def test_other_kinds_of_linear_maps_are_pruned_where_they_are_plain() -> None:
    class Twice(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    model = Blocks.Plain()
    model.v = Twice(24, 24)
    check(nn.Sequential(model), (X,), {"0": [0, 1]})


def test_low_rank_adapters_are_pruned_with_what_they_adapt() -> None:
    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base, self.down, self.up = base, nn.Linear(24, 2, bias=False), nn.Linear(2, 24, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.up(self.down(x))

    model = Blocks.Plain()
    model.q, model.o = Adapted(model.q), Adapted(model.o)
    pruned = prune(nn.Sequential(model).double(), {"0": [0, 1]}, (X.double(),))[0]
    truth = zeroed(model, {"o.base.weight": [2, 3], "o.down.weight": [2, 3]}, 6)
    torch.testing.assert_close(pruned(X.double()), truth(X.double()), rtol=0, atol=TOLERANCE)
    assert pruned.q.up.weight.shape == (12, 2)
    assert pruned.o.down.weight.shape == (2, 12)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, that its quantisation moves to another package
def test_quantised_maps_are_refused() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(Blocks.Plain()).eval(), {nn.Linear})
    with pytest.raises(SurgeryError, match=r"^0: its queries come from no projection that could be followed"):
        prune(model, {"0": [0, 1]}, (X,))


def test_wrapped_models_are_refused() -> None:
    with pytest.raises(SurgeryError, match="wrapped in DataParallel: hand over the module inside"):
        prune(nn.DataParallel(nn.Sequential(Blocks.Plain())), {"0": [0]}, (X,))


def test_compiled_models_are_pruned() -> None:
    model = torch.compile(nn.Sequential(Blocks.Plain()), backend="eager")
    pruned = prune(model, {"_orig_mod.0": [3]}, (X,))
    truth = zeroed(model._orig_mod, {"0.o.weight": [0, 1, 2]}, 6)
    torch.testing.assert_close(pruned(X), truth(X), rtol=0, atol=1e-6)


def test_a_block_of_several_uses_is_pruned_once() -> None:
    block = Blocks.Plain()
    check(nn.Sequential(block, block, block), (X,), {"0": [1, 3]})


def test_the_attention_block_itself_cannot_give_way_in_place() -> None:
    block = nn.MultiheadAttention(24, 4, batch_first=True)
    same = untouched(block)
    with pytest.raises(SurgeryError) as caught:
        prune(block, {"": [1]}, (X, X, X), copy=False)
    assert str(caught.value) == "the model is itself the attention block that changes its size: use copy=True"
    same()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_pruned_to_the_bit_of_its_own_arithmetic(zoo: SimpleNamespace, dtype: torch.dtype) -> None:
    model, inputs = zoo.build("lucid").to(dtype), tuple(x.to(dtype) for x in zoo.inputs())
    pruned = prune(model, {"layers.0.attn": [1, 2], "layers.1.attn": [0]}, inputs)
    gone = {"layers.0.attn.to_out.0.weight": [0, 3], "layers.1.attn.to_out.0.weight": [1, 2, 3]}
    truth = zeroed(model, gone, 6)
    # Two roundings of the largest value, 4.
    torch.testing.assert_close(pruned(*inputs), truth(*inputs), rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_every_problem_of_a_mask_is_listed(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("grouped sdpa", 4, 2), zoo.inputs()
    with pytest.raises(PlanError) as caught:
        prune(model, {"layers.0.attn": [1, 4], "layers.2.attn": [0]}, inputs)
    assert len(caught.value.problems) == 2
    assert caught.value.problems[1] == "layers.0.attn: there is no head 4; heads go from 0 to 3"
    with pytest.raises(PlanError) as caught:
        prune(model, {"layers.0.attn": [], "layers.1.attn": [0, 0]}, inputs)
    assert caught.value.problems == (
        "layers.0.attn: no head stays; at least one must",
        "layers.1.attn: head 0 is named 2 times",
    )
    with pytest.raises(PlanError) as caught:
        prune(model, {"layers.0.attn": [0, 1, 2]}, inputs)
    assert str(caught.value) == (
        "layers.0.attn: key/value head 0 keeps 2, key/value head 1 keeps 1; keep equally many of each 2, or none"
    )


@pytest.mark.parametrize("inputs", [X, [X]])
def test_inputs_are_a_tuple_or_a_mapping(inputs: object) -> None:
    with pytest.raises(SurgeryError, match=r"^inputs came as"):
        prune(nn.Sequential(Blocks.Plain()), {"0": [1]}, inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [X[:, :1], torch.ones(2, 5, 24)])
def test_inputs_that_show_nothing_are_refused(x: Tensor) -> None:
    with pytest.raises(SurgeryError) as caught:
        prune(nn.Sequential(Blocks.Plain()), {"0": [1]}, (x,))
    assert str(caught.value) == (
        "0: its values are the same at every position of these inputs, which shows nothing of its queries and keys; "
        "give inputs of two or more different tokens"
    )
