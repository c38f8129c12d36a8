from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.surgery.find import find_sites
from headtune.surgery.located import survey
from headtune.surgery.probe import ForwardFailed, Projections


def test_blocks_are_in_model_order_even_when_run_in_another(zoo: SimpleNamespace) -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(zoo.LucidAttention(h, 24 // h) for h in (2, 3, 4))

        def forward(self, x: Tensor) -> Tensor:
            for layer in reversed(self.layers):
                x = x + layer(x)
            return x

    found = survey(Backwards(), zoo.inputs())
    assert [(path, block.site.num_heads) for path, block in found.blocks.items()] == [
        ("layers.0", 2),
        ("layers.1", 3),
        ("layers.2", 4),
    ]
    assert found.unplaced == ()
    assert found.nan is False


def test_a_block_is_the_innermost_module_that_holds_the_query_projection(zoo: SimpleNamespace) -> None:
    found = survey(zoo.build("child"), zoo.inputs())
    (block,) = found.blocks.values()
    assert block.site.path == "attn"
    assert [frame.path for frame in block.call.frames] == ["", "attn", "attn.attention"]
    assert block.call.projections == Projections(
        q=frozenset({"attn.w_qs.weight"}),
        k=frozenset({"attn.w_ks.weight"}),
        v=frozenset({"attn.w_vs.weight"}),
        out=frozenset({"dense.weight"}),
    )


def test_a_multihead_attention_is_the_block_whatever_surrounds_it() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.proj = nn.MultiheadAttention(24, 4, batch_first=True), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(self.proj(x), x, x, need_weights=False)[0]

    (block,) = survey(Wrapper(), (torch.randn(2, 5, 24),)).blocks.values()
    assert (block.site.path, block.site.role) == ("inner", "cross")


class TwoInOne(nn.Module):
    """One module that computes two attentions, with projections and maybe counts of their own."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.qkv1, self.qkv2, self.out = nn.Linear(24, 72), nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        for projection, heads in ((self.qkv1, self.first), (self.qkv2, self.second)):
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in projection(x).chunk(3, -1))
            x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(x)


def test_several_attentions_in_one_module_are_one_block_without_known_projections(zoo: SimpleNamespace) -> None:
    (block,) = survey(TwoInOne(4, 4), zoo.inputs()).blocks.values()
    assert block.site.num_heads == 4
    assert block.call.projections == Projections()


def test_several_attentions_with_several_counts_are_refused(zoo: SimpleNamespace) -> None:
    with pytest.raises(SurgeryError) as caught:
        survey(nn.Sequential(TwoInOne(4, 8), TwoInOne(3, 2)), zoo.inputs())
    assert str(caught.value) == (
        "2 problems:\n"
        "  - 0 computes attention 2 times, as 4x6 and 8x3: give each a module of its own\n"
        "  - 1 computes attention 2 times, as 2x12 and 3x8: give each a module of its own"
    )


def test_an_embedding_of_another_width_is_read_off_the_query_projection() -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.kv, self.out = nn.Linear(10, 24), nn.Linear(14, 48), nn.Linear(24, 10)

        def forward(self, memory: Tensor, x: Tensor) -> Tensor:
            parts = (self.q(x), *self.kv(memory).chunk(2, -1))
            q, k, v = (t.unflatten(-1, (4, 6)).transpose(1, 2) for t in parts)
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    (block,) = survey(Narrow(), (torch.randn(2, 5, 14), torch.randn(2, 3, 10))).blocks.values()
    assert (block.site.embed_dim, block.site.role, block.site.width) == (10, "cross", 24)


def test_attention_between_channels_is_no_site(zoo: SimpleNamespace) -> None:
    """Scores summed over the sequence (XCiT): what would be the head_dim is the number of tokens."""

    class Channels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.qkv, self.out = 4, nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (4, 6)).transpose(1, 2).mT for t in self.qkv(x).chunk(3, -1))
            weights = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(-1)
            return self.out((weights @ v).permute(0, 3, 1, 2).flatten(2))

    found = survey(nn.Sequential(zoo.LucidAttention(4, 6), Channels()), zoo.inputs())
    assert list(found.blocks) == ["0"]
    assert found.unplaced == ("1",)


def test_the_cause_of_a_failed_pass_is_kept(zoo: SimpleNamespace) -> None:
    with pytest.raises(ForwardFailed) as caught:
        survey(zoo.build("lucid"), ())
    assert caught.value.path == ""
    assert isinstance(caught.value.error, TypeError)


@pytest.mark.parametrize("listed", [False, True])
def test_heads_that_are_computed_one_by_one_are_no_single_head(listed: bool) -> None:
    class OneByOne(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts = 4 if listed else 1
            self.q, self.k, self.v = (nn.ModuleList(nn.Linear(24, 24 // parts) for _ in range(parts)) for _ in range(3))
            self.out = nn.Linear(24, 24)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (torch.cat([one(x) for one in side], -1).chunk(4, -1) for side in (self.q, self.k, self.v))
            heads = [(a @ b.transpose(-2, -1) * 6**-0.5).softmax(-1) @ c for a, b, c in zip(q, k, v, strict=True)]
            made: torch.Tensor = self.out(torch.cat(heads, -1))
            return made

    with pytest.raises(SurgeryError) as error:
        find_sites(OneByOne(), (torch.randn(2, 5, 24),))
    assert str(error.value) == (
        "the model computes attention of one head 4 times in one pass, as if it took its heads one by one, which "
        "cannot be counted: compute all heads in one batch"
    )
