"""Where trials run: in this process, or in Ray's workers."""

from headtune.execute.inline import InlineExecutor
from headtune.execute.ray_tune import RayExecutor

__all__ = ["InlineExecutor", "RayExecutor"]
