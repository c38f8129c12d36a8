import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply_plan
from headtune.surgery.changes import Change, changes
from headtune.surgery.original import Original
from headtune.surgery.verdict import Verdict, verdict


def judged(model: nn.Module, inputs: tuple[Tensor, ...], edit: object, **wanted: HeadCount) -> Verdict:
    """What the verdict is on *edit*, an arbitrary change of the model, when the plan asks for *wanted* counts."""
    original = Original(model, inputs)
    plan = HeadPlan.of({s.path: wanted.get(s.path, s.present) for s in original.sites})
    made: tuple[Change, ...] = changes(original, plan, original.sites)
    edit(model)
    return verdict(model, plan, made, original)


class Two(nn.Module):
    """Two blocks side by side."""

    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.a, self.b = block(4, 6), block(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) + self.b(x)


def test_a_model_that_does_as_planned_is_good(zoo: SimpleNamespace) -> None:
    def edit(model: nn.Module) -> None:
        model.a.heads, model.a.scale = 2, 12**-0.5

    assert judged(Two(zoo.LucidAttention), zoo.inputs(), edit, a=HeadCount(2, 2, 12)) == Verdict()


def test_every_block_that_computes_something_else_is_named(zoo: SimpleNamespace) -> None:
    def edit(model: nn.Module) -> None:
        model.b.heads = 8

    found = judged(Two(zoo.LucidAttention), zoo.inputs(), edit, a=HeadCount(2, 2, 12))
    rest = "let forward take its counts from attributes of the module, and from nowhere else"
    assert found == Verdict(
        problems=(
            f"a: the plan asks for 2x12, but after the change it computes 4x6; {rest}",
            f"b: the plan asks for 4x6, but after the change it computes 8x3; {rest}",
        ),
        blamed=frozenset({"a", "b"}),
    )


def test_a_stale_scale_is_found_however_it_is_applied(zoo: SimpleNamespace) -> None:
    """Scores, scaled queries, scaled keys: the probe multiplies the numbers on all ways to the softmax."""

    new = {"heads": 2, "num_heads": 2, "n_head": 2, "n_heads": 2, "head_dim": 12, "d_k": 12}

    def only_heads(model: nn.Module) -> None:
        for block in model.modules():
            vars(block).update({name: value for name, value in new.items() if name in vars(block)})

    for name in ("lucid", "merged", "child", "tensor scale"):
        model, inputs = zoo.build(name), zoo.inputs(name)
        paths = {s.path: HeadCount(2, 2, 12) for s in Original(model, inputs).sites}
        found = judged(model, inputs, only_heads, **paths)
        assert [problem.partition(":")[2] for problem in found.problems] == [
            " its scores are still scaled by 0.4082, where 12 features per head need 0.2887; "
            "let forward compute the scale, or store it as self.scale"
        ] * len(paths), name


@pytest.mark.parametrize("scale", [1.0, 10.0, 0.0625])
def test_a_scale_that_never_followed_head_dim_may_stay(scale: float) -> None:
    """T5 scales by nothing, cosine attention by a constant: only a power of head_dim must follow it."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.qkv, self.out = 4, nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return self.out(((q @ k.transpose(-2, -1) * scale).softmax(-1) @ v).transpose(1, 2).flatten(2))

    plan = HeadPlan.of({"": HeadCount(2, 2, 12)})
    apply_plan(Constant(), plan, (torch.randn(2, 7, 24),), hold="width")


@pytest.mark.parametrize("power", [-1.0, -0.25, 0.5])
def test_other_powers_of_head_dim_must_follow_it_too(power: float) -> None:
    class Powered(nn.Module):
        def __init__(self, live: bool) -> None:
            super().__init__()
            self.num_heads, self.live, self.number = 4, live, 6**power
            self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            number = q.shape[-1] ** power if self.live else self.number
            return self.out(((q @ k.transpose(-2, -1) * number).softmax(-1) @ v).transpose(1, 2).flatten(2))

    x = (torch.randn(2, 7, 24),)
    count = HeadCount(2, 2, 12)

    original = Original(Powered(True), x)
    plan = HeadPlan.of({"": count})
    made = changes(original, plan, original.sites)
    live, stale = Powered(True), Powered(False)
    live.num_heads = stale.num_heads = 2
    assert verdict(live, plan, made, original) == Verdict()
    (problem,) = verdict(stale, plan, made, original).problems
    expected = f"{6**power:.4g}, where 12 features per head need {12**power:.4g}; let forward"
    assert problem.startswith(f"the model: its scores are still scaled by {expected}")


def test_a_forward_that_raises_is_blamed_on_the_block_that_ran(zoo: SimpleNamespace) -> None:
    def edit(model: nn.Module) -> None:
        model.b.heads = 5

    found = judged(Two(zoo.LucidAttention), zoo.inputs(), edit, a=HeadCount(2, 2, 12), b=HeadCount(2, 2, 12))
    assert found == Verdict(
        problems=(
            "b with 2x12: forward raises RuntimeError: shape '[2, 7, 5, -1]' is invalid for input of size 336; "
            "let forward take every size from attributes for the head counts, such as self.num_heads and "
            "self.head_dim, and reshape its output to num_heads * head_dim",
        ),
        blamed=frozenset({"b"}),
    )


def test_attention_that_vanishes_or_appears_is_a_problem(zoo: SimpleNamespace) -> None:
    def vanish(model: nn.Module) -> None:
        model.b = nn.Linear(24, 24)

    assert judged(Two(zoo.LucidAttention), zoo.inputs(), vanish).problems == (
        "b: after the change no attention is seen here any more",
    )

    def appear(model: nn.Module) -> None:
        model.b = nn.Sequential(zoo.LucidAttention(4, 6), zoo.LucidAttention(4, 6))

    assert judged(Two(zoo.LucidAttention), zoo.inputs(), appear).problems == (
        "b: after the change no attention is seen here any more",
        "b.0: after the change another attention block is seen here",
        "b.1: after the change another attention block is seen here",
    )


def test_an_output_that_turns_nan_is_a_problem_unless_it_was_before(zoo: SimpleNamespace) -> None:
    class Logged(nn.Module):
        def __init__(self, shift: float) -> None:
            super().__init__()
            self.attn, self.shift = zoo.LucidAttention(4, 6), shift

        def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
            return {"out": [self.attn(x) + self.shift]}

    def edit(model: nn.Module) -> None:
        model.attn.heads, model.attn.scale, model.shift = 2, 12**-0.5, math.nan

    wanted = {"attn": HeadCount(2, 2, 12)}
    (problem,) = judged(Logged(0.0), zoo.inputs(), edit, **wanted).problems
    # The original is watched first, as it was; then the same edit on a model that gave NaN before.
    assert problem.startswith("attn with 2x12: the output is not a number any more; let forward take every size")
    assert judged(Logged(math.nan), zoo.inputs(), edit, **wanted) == Verdict()
