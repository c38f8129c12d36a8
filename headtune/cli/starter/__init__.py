"""The files that `headtune init` writes."""
