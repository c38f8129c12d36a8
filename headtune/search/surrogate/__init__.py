"""A model of the front that says which training to begin, and which to go on with."""

from headtune.search.surrogate.decision import Move, Surrogate, pauses_of

__all__ = ["Move", "Surrogate", "pauses_of"]
