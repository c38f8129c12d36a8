"""Small models of the usual shapes, each built from its head counts, so that the truth can be built too."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

EMBED, LENGTH, BATCH = 24, 7, 2


class Stack(nn.Module):
    """Two pre-norm residual layers around any self-attention block."""

    def __init__(self, block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(EMBED), "attn": block(), "mlp": nn.Linear(EMBED, EMBED)})
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer["attn"](layer["norm"](x))
            x = x + torch.relu(layer["mlp"](x))
        return x


class NanoAttention(nn.Module):
    """As in nanoGPT: one fused projection cut by the embedding width, a stored causal mask."""

    def __init__(self, n_head: int, fused: bool = True, sdpa: bool = True) -> None:
        super().__init__()
        self.fused, self.sdpa, self.n_head, self.n_embd = fused, sdpa, n_head, EMBED
        if fused:
            self.c_attn = nn.Linear(EMBED, 3 * EMBED, bias=False)
        else:
            self.query, self.key, self.value = (nn.Linear(EMBED, EMBED) for _ in range(3))
        self.c_proj = nn.Linear(EMBED, EMBED)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = (
            self.c_attn(x).split(self.n_embd, dim=2) if self.fused else (self.query(x), self.key(x), self.value(x))
        )
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


@dataclass
class Config:
    n_embd: int
    n_head: int
    head_dim: int


class ConfigAttention(nn.Module):
    """Reads its counts from a configuration that all layers share."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_head * config.head_dim)
        self.proj = nn.Linear(config.n_head * config.head_dim, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        heads, size = self.config.n_head, self.config.head_dim
        q, k, v = (t.view(*x.shape[:2], heads, size).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class AnnotatedAttention(nn.Module):
    """As in The Annotated Transformer: cloned Linears in a list, a free function, the weights kept on the module."""

    def __init__(self, h: int, d_k: int) -> None:
        super().__init__()
        self.h, self.d_k = h, d_k
        self.linears = nn.ModuleList([*(nn.Linear(EMBED, h * d_k) for _ in range(3)), nn.Linear(h * d_k, EMBED)])
        self.attn: Tensor | None = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        B = query.size(0)
        q, k, v = (
            linear(x).view(B, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        self.attn = scores.softmax(dim=-1)
        x = torch.matmul(self.attn, v).transpose(1, 2).contiguous().view(B, -1, self.h * self.d_k)
        return self.linears[-1](x)


class AnnotatedModel(nn.Module):
    """A decoder layer: causal self-attention over the target, then cross-attention to the source."""

    def __init__(self, h: int, d_k: int) -> None:
        super().__init__()
        self.self_attn, self.src_attn = AnnotatedAttention(h, d_k), AnnotatedAttention(h, d_k)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mask = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))[None, None]
        x = x + self.self_attn(x, x, x, mask)
        return x + self.src_attn(x, memory, memory)


class LucidAttention(nn.Module):
    """As lucidrains writes it: a free inner width, a stored scale, ``b n (h d) -> b h n d`` by hand."""

    def __init__(self, heads: int, dim_head: int, context: bool = False) -> None:
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale, self.context = heads, dim_head**-0.5, context
        if context:
            self.to_q, self.to_kv = nn.Linear(EMBED, inner, bias=False), nn.Linear(EMBED, 2 * inner, bias=False)
        else:
            self.to_qkv = nn.Linear(EMBED, 3 * inner, bias=False)
        self.attend, self.dropout = nn.Softmax(dim=-1), nn.Dropout(0.0)
        self.to_out = nn.Sequential(nn.Linear(inner, EMBED), nn.Dropout(0.0))

    def forward(self, x: Tensor) -> Tensor:
        parts = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)) if self.context else self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in parts)
        attn = self.dropout(self.attend(torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale))
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(*x.shape[:2], -1))


class GroupedAttention(nn.Module):
    """Grouped key/value heads as in Llama: repeated by hand, or by SDPA itself; rotary positions made in forward."""

    def __init__(self, n_head: int, n_kv_head: int, head_dim: int, sdpa: bool = False) -> None:
        super().__init__()
        self.n_head, self.n_kv_head, self.head_dim, self.sdpa = n_head, n_kv_head, head_dim, sdpa
        self.n_rep = n_head // n_kv_head
        self.wq = nn.Linear(EMBED, n_head * head_dim, bias=False)
        self.wk, self.wv = (nn.Linear(EMBED, n_kv_head * head_dim, bias=False) for _ in range(2))
        self.wo = nn.Linear(n_head * head_dim, EMBED, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q = rotated(self.wq(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2))
        k = rotated(self.wk(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2))
        v = self.wv(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = (t.repeat_interleave(self.n_rep, dim=1) for t in (k, v))
            scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
            scores = scores + torch.full((T, T), float("-inf"), device=x.device).triu(1)
            y = torch.matmul(F.softmax(scores.float(), dim=-1).type_as(q), v)
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, -1))


def rotated(x: Tensor) -> Tensor:
    """Rotary positions over pairs (i, i + D/2); an odd or single feature stays."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], device=x.device)[:, None] * 100.0 ** -(
        torch.arange(half, device=x.device) / max(half, 1)
    )
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = [first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos(), rest]
    return torch.cat(turned, dim=-1).type_as(x)


class MergedAttention(nn.Module):
    """As in fairseq: time first, heads merged into the batch, bmm, q scaled before the product."""

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.scaling = num_heads, head_dim, head_dim**-0.5
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(EMBED, num_heads * head_dim) for _ in range(3))
        self.out_proj = nn.Linear(num_heads * head_dim, EMBED)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        T, B, _ = x.shape
        q = self.q_proj(x) * self.scaling
        q, k, v = (
            t.contiguous().view(T, B * self.num_heads, self.head_dim).transpose(0, 1)
            for t in (q, self.k_proj(x), self.v_proj(x))
        )
        y = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)
        return self.out_proj(y.transpose(0, 1).contiguous().view(T, B, -1)).transpose(0, 1)


class EinsumAttention(nn.Module):
    """Heads behind time, ``bqhd,bkhd->bhqk``; the fused projection is interleaved per head."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_heads, self.head_size = num_heads, head_size
        self.qkv, self.out = nn.Linear(EMBED, 3 * num_heads * head_size), nn.Linear(num_heads * head_size, EMBED)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], self.num_heads, 3, self.head_size).unbind(dim=3)
        weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) / self.head_size**0.5).softmax(-1)
        return self.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


class VisionAttention(nn.Module):
    """As in DeiT and older timm: one permuted fused projection, a stored scale, the width read off the input."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.scale = num_heads, (EMBED // num_heads) ** -0.5
        self.qkv, self.attn_drop = nn.Linear(EMBED, 3 * EMBED), nn.Dropout(0.0)
        self.proj, self.proj_drop = nn.Linear(EMBED, EMBED), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class NanoCross(nn.Module):
    """Cross-attention in nanoGPT's manner: the width is the queries', and serves for the memory too."""

    def __init__(self, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.q, self.kv, self.proj = nn.Linear(EMBED, EMBED), nn.Linear(EMBED, 2 * EMBED), nn.Linear(EMBED, EMBED)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        (B, T, C), S = x.shape, memory.shape[1]
        q = self.q(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k, v = (t.view(B, S, self.n_head, C // self.n_head).transpose(1, 2) for t in self.kv(memory).split(C, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class FusedGroupedAttention(nn.Module):
    """All of q, k and v in one projection, keys and values with fewer heads (Falcon, Phi)."""

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim
        self.qkv_proj = nn.Linear(EMBED, (num_heads + 2 * num_kv_heads) * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, EMBED, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.num_kv_heads * self.head_dim
        parts = self.qkv_proj(x).split([self.num_heads * self.head_dim, shared, shared], dim=-1)
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for t in parts)
        group = self.num_heads // self.num_kv_heads
        k, v = (t[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for t in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class ScaledDotProduct(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.softmax(torch.matmul(q / self.temperature, k.transpose(2, 3)), dim=-1) @ v


class ChildAttention(nn.Module):
    """The product is a module of its own that stores the temperature; the output projection is another block's."""

    def __init__(self, n_head: int, d_k: int) -> None:
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.w_qs, self.w_ks, self.w_vs = (nn.Linear(EMBED, n_head * d_k, bias=False) for _ in range(3))
        self.attention = ScaledDotProduct(temperature=d_k**0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            w(x).view(*x.shape[:2], self.n_head, self.d_k).transpose(1, 2) for w in (self.w_qs, self.w_ks, self.w_vs)
        )
        return self.attention(q, k, v).transpose(1, 2).flatten(2)


class ChildModel(nn.Module):
    def __init__(self, n_head: int, d_k: int) -> None:
        super().__init__()
        self.attn, self.dense = ChildAttention(n_head, d_k), nn.Linear(n_head * d_k, EMBED)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dense(self.attn(x))


class TensorScaleAttention(nn.Module):
    """Keeps its scale as a buffer, as many tutorials do."""

    def __init__(self, n_heads: int, head_dim: int) -> None:
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(EMBED, n_heads * head_dim) for _ in range(3))
        self.fc_o = nn.Linear(n_heads * head_dim, EMBED)
        self.register_buffer("scale", torch.sqrt(torch.tensor([float(head_dim)])))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            fc(x).view(x.shape[0], -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
            for fc in (self.fc_q, self.fc_k, self.fc_v)
        )
        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / self.scale
        out = torch.matmul(torch.softmax(energy, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        return self.fc_o(out.view(x.shape[0], -1, self.n_heads * self.head_dim))


def stack(block: Callable[..., nn.Module], **options: object) -> Callable[[int, int, int], nn.Module]:
    return lambda heads, kv_heads, head_dim: Stack(lambda: block(heads, head_dim, **options))


def nano(**options: bool) -> Callable[[int, int, int], nn.Module]:
    return lambda heads, kv_heads, head_dim: Stack(lambda: NanoAttention(heads, **options))


def grouped(**options: bool) -> Callable[[int, int, int], nn.Module]:
    return lambda heads, kv_heads, head_dim: Stack(lambda: GroupedAttention(heads, kv_heads, head_dim, **options))


def configured(heads: int, kv_heads: int, head_dim: int) -> nn.Module:
    config = Config(EMBED, heads, head_dim)
    return Stack(lambda: ConfigAttention(config))


MODELS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "nano fused sdpa": nano(fused=True, sdpa=True),
    "nano fused manual": nano(fused=True, sdpa=False),
    "nano separate sdpa": nano(fused=False, sdpa=True),
    "nano separate manual": nano(fused=False, sdpa=False),
    "config": configured,
    "annotated": lambda heads, kv_heads, head_dim: AnnotatedModel(heads, head_dim),
    "lucid": stack(LucidAttention),
    "lucid to_kv": stack(LucidAttention, context=True),
    "merged": stack(MergedAttention),
    "einsum": stack(EinsumAttention),
    "child": lambda heads, kv_heads, head_dim: ChildModel(heads, head_dim),
    "tensor scale": stack(TensorScaleAttention),
    "vision": lambda heads, kv_heads, head_dim: Stack(lambda: VisionAttention(heads)),
    "nano cross": lambda heads, kv_heads, head_dim: NanoCross(heads),
    "grouped fused": lambda heads, kv_heads, head_dim: Stack(lambda: FusedGroupedAttention(heads, kv_heads, head_dim)),
    "grouped repeat": grouped(sdpa=False),
    "grouped sdpa": grouped(sdpa=True),
}


@pytest.fixture
def zoo() -> SimpleNamespace:
    """``build(name, heads, kv_heads, head_dim)``, ``inputs(name)`` and ``Stack``, for models that are hand-written."""

    def build(name: str, heads: int = 4, kv_heads: int | None = None, head_dim: int = 6) -> nn.Module:
        return MODELS[name](heads, kv_heads or heads, head_dim)

    def inputs(name: str = "") -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(BATCH, LENGTH, EMBED, generator=generator)
        return (
            (x, torch.randn(BATCH, LENGTH + 2, EMBED, generator=generator))
            if name in ("annotated", "nano cross")
            else (x,)
        )

    return SimpleNamespace(build=build, inputs=inputs, Stack=Stack, LucidAttention=LucidAttention, EMBED=EMBED)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
