"""One model that computes with every plan of a space, on one set of weights."""

from headtune.surgery.sharing.supernet import Supernet

__all__ = ["Supernet"]
