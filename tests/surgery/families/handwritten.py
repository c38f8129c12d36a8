"""Models as people write them, in the shapes of nanoGPT, einops, vit-pytorch, Llama, Megatron, fairseq and CaiT."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from headtune import HeadCount, HeadPlan
from headtune.surgery import Case

VOCAB, T = 41, 7


@dataclass
class GPTConfig:
    n_head: int
    fused: bool
    n_embd: int = 24
    n_layer: int = 2


class CausalSelfAttention(nn.Module):
    """The width and the number of heads stand in the block; one projection for all, or three."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_head, self.n_embd, self.fused = config.n_head, config.n_embd, config.fused
        if config.fused:
            self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        else:
            self.query, self.key, self.value = (nn.Linear(config.n_embd, config.n_embd) for _ in range(3))
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        made = self.c_attn(x).split(self.n_embd, dim=2) if self.fused else (self.query(x), self.key(x), self.value(x))
        q, k, v = (part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for part in made)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    """Pre-norm blocks between tied embeddings."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, config.n_embd), nn.Embedding(16, config.n_embd)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "ln_1": nn.LayerNorm(config.n_embd),
                    "attn": CausalSelfAttention(config),
                    "ln_2": nn.LayerNorm(config.n_embd),
                    "mlp": nn.Sequential(nn.Linear(config.n_embd, 32), nn.GELU(), nn.Linear(32, config.n_embd)),
                }
            )
            for _ in range(config.n_layer)
        )
        self.lm_head = nn.Linear(config.n_embd, VOCAB, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = x + block["attn"](block["ln_1"](x))
            x = x + block["mlp"](block["ln_2"](x))
        return self.lm_head(x)


class EinopsAttention(nn.Module):
    """Heads are split by name, and so is what comes out."""

    def __init__(self, dim: int, heads: int, dim_head: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        parts = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
        q, k, v = (rearrange(part, "b n (h d) -> b h n d", h=self.heads) for part in parts)
        scores = torch.einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        out = torch.einsum("b h i j, b h j d -> b h i d", scores.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


class PatchAttention(nn.Module):
    """An attention of its own width, a softmax module, dropout, and an output projection with dropout behind."""

    def __init__(self, dim: int, heads: int, dim_head: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm, self.attend, self.dropout = nn.LayerNorm(dim), nn.Softmax(dim=-1), nn.Dropout(0.1)
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (rearrange(part, "b n (h d) -> b h n d", h=self.heads) for part in parts)
        attn = self.dropout(self.attend(torch.matmul(q, k.transpose(-1, -2)) * self.scale))
        return self.to_out(rearrange(torch.matmul(attn, v), "b h n d -> b n (h d)"))


class PatchViT(nn.Module):
    """Patches of an image, a class token, pooled by it."""

    def __init__(self, heads: int, dim_head: int, dim: int = 24) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(1, dim, 4, 4), nn.Flatten(2))
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.layers = nn.ModuleList(PatchAttention(dim, heads, dim_head) for _ in range(2))
        self.head = nn.Linear(dim, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x[:, 0])


class RotaryAttention(nn.Module):
    """Grouped key/value heads, repeated by hand, and rotary positions that the model hands in."""

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, n_kv_heads * head_dim, bias=False) for _ in range(2))
        self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = turned(q), turned(k)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        scores = scores + torch.full(scores.shape[-2:], float("-inf"), dtype=x.dtype).triu(1)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def turned(x: Tensor) -> Tensor:
    """Rotary positions over pairs of features half a head apart."""
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[-2]), 100.0 ** -(torch.arange(half) / half)).to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], dim=-1)


class InterleavedAttention(nn.Module):
    """One projection that holds query, key and value of each head side by side."""

    def __init__(self, dim: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.query_key_value = nn.Linear(dim, 3 * num_heads * head_dim)
        self.dense = nn.Linear(num_heads * head_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        made = self.query_key_value(x).view(*x.shape[:2], self.num_heads, 3 * self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(*made.chunk(3, dim=-1), is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class TimeFirstAttention(nn.Module):
    """Time first, heads merged into the batch, queries scaled before the product."""

    def __init__(self, dim: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.scaling = num_heads, head_dim, head_dim**-0.5
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, num_heads * head_dim) for _ in range(3))
        self.out_proj = nn.Linear(num_heads * head_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        T, B, _ = x.transpose(0, 1).shape
        parts = (self.q_proj(x) * self.scaling, self.k_proj(x), self.v_proj(x))
        q, k, v = (
            part.transpose(0, 1).contiguous().view(T, B * self.num_heads, self.head_dim).transpose(0, 1)
            for part in parts
        )
        y = torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(dim=-1), v)
        return self.out_proj(y.transpose(0, 1).reshape(T, B, -1)).transpose(0, 1)


class TalkingAttention(PatchAttention):
    """Heads are mixed with each other before and after the softmax."""

    def __init__(self, dim: int, heads: int, dim_head: int) -> None:
        super().__init__(dim, heads, dim_head)
        self.mix_before, self.mix_after = (nn.Conv2d(heads, heads, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (rearrange(part, "b n (h d) -> b h n d", h=self.heads) for part in parts)
        attn = self.mix_after(self.attend(self.mix_before(torch.matmul(q, k.transpose(-1, -2)) * self.scale)))
        return self.to_out(rearrange(torch.matmul(attn, v), "b h n d -> b n (h d)"))


class Residual(nn.Module):
    """Two layers around any block."""

    def __init__(self, block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def nano(count: HeadCount, fused: bool) -> nn.Module:
    return GPT(GPTConfig(count.num_heads, fused))


def layered(block: Callable[..., nn.Module]) -> Callable[[HeadCount], nn.Module]:
    """Two layers of a block that takes the width, its heads, its key/value heads where it groups them, and head_dim."""

    def build(count: HeadCount) -> nn.Module:
        counts = count if block is RotaryAttention else (count.num_heads, count.head_dim)
        return Residual(lambda: block(24, *counts))

    return build


def cases() -> list[Case]:
    generator = torch.Generator().manual_seed(0)
    idx = torch.randint(VOCAB, (2, T), generator=generator)
    x = torch.randn(2, T, 24, generator=generator)
    image = torch.randn(2, 1, 8, 8, generator=generator)
    plain, grouped = HeadCount(4, 4, 6), HeadCount(4, 2, 6)
    return [
        case("nanoGPT, fused projection", lambda count: nano(count, True), plain, idx),
        case("nanoGPT, three projections", lambda count: nano(count, False), plain, idx),
        case("einops", layered(EinopsAttention), plain, x),
        case("vit-pytorch", lambda count: PatchViT(count.num_heads, count.head_dim), plain, image),
        case("Llama by hand, grouped and rotary", layered(RotaryAttention), grouped, x),
        case("Megatron, interleaved projection", layered(InterleavedAttention), plain, x),
        case("fairseq, heads in the batch", layered(TimeFirstAttention), plain, x),
        case("CaiT, talking heads", layered(TalkingAttention), plain, x),
    ]


def case(name: str, build: Callable[[HeadCount], nn.Module], count: HeadCount, *inputs: Tensor) -> Case:
    def seeded() -> nn.Module:
        torch.manual_seed(0)
        return build(count)

    def rebuild(plan: HeadPlan) -> nn.Module:
        return build(plan[plan.paths[0]])

    return Case(name=name, build=seeded, inputs=inputs, rebuild=rebuild)
