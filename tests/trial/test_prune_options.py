"""What a pruning is told: one goal, and numbers that mean something."""

import pytest

from headtune.errors import SpecError
from headtune.trial.prune_options import PruneGoal, Shrinking


def test_a_pruning_has_one_goal() -> None:
    with pytest.raises(SpecError) as caught:
        PruneGoal()
    assert str(caught.value) == "prune: has no goal; give heads, latency_ratio, quality_loss: one of them"
    with pytest.raises(SpecError) as caught:
        PruneGoal(heads=0, latency_ratio=1.5, quality_loss=-1.0)
    assert caught.value.problems == (
        "prune.heads: must be at least 1 (got 0)",
        "prune.latency_ratio: must be a number above 0 and below 1 (got 1.5)",
        "prune.quality_loss: must be a number of at least 0 (got -1.0)",
        "prune.latency_ratio: is one goal too many beside heads; keep one",
        "prune.quality_loss: is one goal too many beside heads; keep one",
    )


def test_numbers_without_a_meaning_are_all_named() -> None:
    with pytest.raises(SpecError) as caught:
        Shrinking(share=0.0, order="best", steps=-1, lr=0.0, alpha=2.0, temperature=-1.0, match="x", seed=-1)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "prune.share: must be a number above 0 and at most 1 (got 0.0)",
        "prune.order: must be importance, once or random (got 'best')",
        "prune.steps: must be at least 0 (got -1)",
        "prune.lr: must be a number above 0 (got 0.0)",
        "prune.alpha: must be a number from 0 to 1 (got 2.0)",
        "prune.temperature: must be a number above 0 (got -1.0)",
        "prune.match: must be auto, logits or states (got 'x')",
        "prune.seed: must be at least 0 (got -1)",
    )
