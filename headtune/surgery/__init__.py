"""Seeing the attention of a model, and changing its head counts."""

from headtune.surgery.adapters import Adapter, Handwritten, register_adapter
from headtune.surgery.capture import Captured, captured
from headtune.surgery.checkpoint import load, save
from headtune.surgery.conforming import Case, Finding, conformance
from headtune.surgery.find import find_sites
from headtune.surgery.gates import gated
from headtune.surgery.inferred_hold import apply, hold_of
from headtune.surgery.inputs import Inputs
from headtune.surgery.merging import merge_kv
from headtune.surgery.possible import SitePossibility, possibilities
from headtune.surgery.pruning import prune
from headtune.surgery.transaction import apply_plan

__all__ = [
    "Adapter",
    "Captured",
    "Case",
    "Finding",
    "Handwritten",
    "Inputs",
    "SitePossibility",
    "apply",
    "apply_plan",
    "captured",
    "conformance",
    "find_sites",
    "gated",
    "hold_of",
    "load",
    "merge_kv",
    "possibilities",
    "prune",
    "register_adapter",
    "save",
]
