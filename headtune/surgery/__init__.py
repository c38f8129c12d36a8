"""Seeing the attention of a model, and changing its head counts."""

from headtune.surgery.find import find_sites
from headtune.surgery.inferred_hold import apply, hold_of
from headtune.surgery.inputs import Inputs
from headtune.surgery.possible import SitePossibility, possibilities
from headtune.surgery.transaction import apply_plan

__all__ = ["Inputs", "SitePossibility", "apply", "apply_plan", "find_sites", "hold_of", "possibilities"]
