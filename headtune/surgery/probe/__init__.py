"""Watching a model compute attention: what really happens in one forward pass, whatever the modules are called."""

from headtune.surgery.probe.call import AttentionCall, Frame, Projections
from headtune.surgery.probe.watching import ForwardFailed, Watched, watch

__all__ = ["AttentionCall", "ForwardFailed", "Frame", "Projections", "Watched", "watch"]
