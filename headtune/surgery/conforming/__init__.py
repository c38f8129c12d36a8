"""Trying every operation on a family of models, and comparing what comes out with what it must be."""

from headtune.surgery.conforming.case import Case, Finding
from headtune.surgery.conforming.trying import conformance

__all__ = ["Case", "Finding", "conformance"]
