"""A model of the front that says which training to begin, and which to go on with."""

from headtune.search.surrogate.decision import Surrogate

__all__ = ["Surrogate"]
