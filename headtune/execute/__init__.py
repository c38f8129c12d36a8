"""Where trials run: in this process (:mod:`.inline`), or in Ray's workers (:mod:`.ray_tune`, which loads Ray)."""

from headtune.execute.inline import InlineExecutor

__all__ = ["InlineExecutor"]
