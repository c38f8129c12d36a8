"""Families of timm, tiny."""

from collections.abc import Callable

import torch
from timm.layers import Attention
from timm.models.cait import Cait
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from headtune import HeadPlan
from headtune.surgery import Case

D, H = 24, 4
SIZES = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": D, "num_classes": 10}


class Block(nn.Module):
    """timm's attention with its options, in a residual sum."""

    def __init__(self, heads: int, **options: bool) -> None:
        super().__init__()
        self.attn = Attention(D, heads, qkv_bias=True, norm_layer=nn.LayerNorm, **options)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(x)


def vit(heads: int, **options: bool) -> nn.Module:
    return VisionTransformer(**SIZES, depth=2, num_heads=heads, **options)


def unfused(heads: int) -> nn.Module:
    """As timm computes where fused kernels are switched off."""
    model = vit(heads)
    for block in model.blocks:
        block.attn.fused_attn = False
    return model


def swin(heads: int) -> nn.Module:
    sizes = SIZES | {"patch_size": 2}
    return SwinTransformer(**sizes, depths=(2,), num_heads=(heads,), window_size=2, drop_path_rate=0.0)


def cait(heads: int) -> nn.Module:
    """Its author changes all layers at once, headtune the last one alone: no model to compare with."""
    return Cait(**SIZES, depth=1, num_heads=heads, depth_token_only=1)


def cases() -> list[Case]:
    generator = torch.Generator().manual_seed(0)
    image, x = torch.randn(2, 1, 8, 8, generator=generator), torch.randn(2, 7, D, generator=generator)
    return [
        case("timm ViT", vit, image),
        case("timm ViT, unfused attention", unfused, image),
        case("timm ViT, qk_norm", lambda heads: vit(heads, qk_norm=True), image),
        case("timm Attention, scale_norm", lambda heads: Block(heads, scale_norm=True), x),
        case("timm Attention, gated", lambda heads: Block(heads, gated=True), x),
        case("timm Swin", swin, image),
        case("timm CaiT, talking heads but in the last layer", cait, image, rebuilt=False),
    ]


def case(name: str, make: Callable[[int], nn.Module], inputs: Tensor, *, rebuilt: bool = True) -> Case:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return make(H)

    def rebuild(plan: HeadPlan) -> nn.Module:
        return make(plan[plan.paths[0]].num_heads)

    return Case(name=name, build=build, inputs=(inputs,), rebuild=rebuild if rebuilt else None)
