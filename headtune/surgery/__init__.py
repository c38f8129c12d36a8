"""Seeing the attention of a model, and changing its head counts."""

from headtune.surgery.capture import Captured, captured
from headtune.surgery.checkpoint import load, save
from headtune.surgery.find import find_sites
from headtune.surgery.gates import gated
from headtune.surgery.inferred_hold import apply, hold_of
from headtune.surgery.inputs import Inputs
from headtune.surgery.possible import SitePossibility, possibilities
from headtune.surgery.pruning import prune
from headtune.surgery.transaction import apply_plan

__all__ = [
    "Captured",
    "Inputs",
    "SitePossibility",
    "apply",
    "apply_plan",
    "captured",
    "find_sites",
    "gated",
    "hold_of",
    "load",
    "possibilities",
    "prune",
    "save",
]
