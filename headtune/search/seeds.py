"""Numbers that follow from a study's seed, equal on every machine and in every Python."""

import hashlib
import json


def derive(*parts: int | str) -> int:
    """A number in [0, 2³¹) that follows from *parts* alone."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def trial_seed(study_seed: int, repeat: int) -> int:
    """The seed of a training: from the study's seed and *repeat* alone, so equal across plans."""
    return derive("trial", study_seed, repeat)
