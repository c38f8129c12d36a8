from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import InputError, StorageError
from headtune.surgery import load, save


def test_params_come_back_as_they_were_or_are_refused(tmp_path: Path) -> None:
    params = {"sizes": (2, [3.5, None]), "names": {"a": (True,)}, "scale": torch.tensor([0.5])}
    save(nn.Linear(2, 2), tmp_path, params=params)
    given: dict[str, Any] = {}

    def keep(**kwargs: object) -> nn.Module:
        given.update(kwargs)
        return nn.Linear(2, 2)

    load(tmp_path, keep)
    assert given == params
    assert type(given["sizes"]) is tuple
    with pytest.raises(StorageError) as caught:
        save(nn.Linear(2, 2), tmp_path, params={"at": tmp_path, "of": {1}, "by": {1: 2}})
    assert caught.value.problems == tuple(
        f"params: {what}, which cannot be written down; give numbers or text instead"
        for what in ("at is a PosixPath", "of is a set", "by is a dict with keys that are no text")
    )
    wrong: Any
    for wrong in (5, [], {1: 2}):
        with pytest.raises(InputError, match="params: must be a mapping from names to values"):
            save(nn.Linear(2, 2), tmp_path, params=wrong)
