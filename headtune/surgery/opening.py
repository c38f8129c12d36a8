"""Giving fused attention blocks projections of their own, so that their heads can be seen and cut."""

from collections.abc import Iterable

import torch
from torch import nn

from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import adapter_for
from headtune.surgery.adapters.ownership import replace_module
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.probe import Projections
from headtune.surgery.rng import isolated


def opened(model: nn.Module, sites: Iterable[AttentionSite]) -> nn.Module:
    """The model with a :class:`headtune.nn.HeadedAttention` in place of each ``nn.MultiheadAttention`` among *sites*.

    Returns:
        *model*, edited, or the new block where the model itself was the block.
    """
    with torch.inference_mode(False), isolated(model):
        for site in sites:
            block = model.get_submodule(site.path)
            if isinstance(block, nn.MultiheadAttention):
                model = replace_module(model, block, replacement(block, site.present))
    return model


def why_not_opened(model: nn.Module, site: AttentionSite) -> str | None:
    """Why the block cannot be opened, as a sentence; ``None`` when it can, or need not be."""
    block = model.get_submodule(site.path)
    if not isinstance(block, nn.MultiheadAttention):
        return None
    return adapter_for(block).why_not_resize(model, site, Projections(), site.present)
