"""Which features of the projections around an attention block belong to which head, whatever their layout."""

from headtune.surgery.wiring.find import Followed, follow, wirings
from headtune.surgery.wiring.wiring import Features, Wiring

__all__ = ["Features", "Followed", "Wiring", "follow", "wirings"]
