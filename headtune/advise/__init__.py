"""What to do with a trained model, carried out where the study's trials run."""

from headtune.advise.pruning import prune_model

__all__ = ["prune_model"]
