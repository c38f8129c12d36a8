from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.config.places import output_of, storage_of
from headtune.config.schema import StudyFile

Parse = Callable[..., StudyFile]


@pytest.mark.parametrize(
    ("keys", "output", "storage"),
    [
        ({}, "{folder}/runs/x", "sqlite:///{folder}/runs/x/study.db"),
        ({"output": "a/../b"}, "{folder}/b", "sqlite:///{folder}/b/study.db"),
        ({"output": "/b"}, "/b", "sqlite:////b/study.db"),
        ({"storage": "sqlite:///a/../kept.db"}, "{folder}/runs/x", "sqlite:///{folder}/kept.db"),
        ({"storage": "postgresql://u@h/d"}, "{folder}/runs/x", "postgresql://u@h/d"),
        ({"output": "~/b", "storage": "sqlite:///~/k.db"}, "/home/ann/b", "sqlite:////home/ann/k.db"),
    ],
)
def test_places(
    parse: Parse, keys: dict[str, str], output: str, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    file = parse(**keys)
    assert output_of(file, tmp_path) == Path(output.format(folder=tmp_path))
    assert storage_of(file, tmp_path) == storage.format(folder=tmp_path)
