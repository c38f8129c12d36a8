import pytest

from headtune.errors import StudyChangedError
from headtune.search.fingerprint import check_unchanged

BEFORE = {"seed": 0, "space": {"hold": "width", "heads": [1, 2], "params": {}}, "args": {"n": 1, "m": {}}, "name": "ä"}


def test_what_json_cannot_tell_apart_has_not_changed() -> None:
    check_unchanged("vit", BEFORE, {**BEFORE, "space": {"params": {}, "heads": (1, 2), "hold": "width"}})


def test_every_changed_key_is_named_with_both_values() -> None:
    params = {"lr": {"low": 0.1, "high": 1.0}, "wd": {"choices": [1, 2]}}
    now = {"seed": 1, "space": {"hold": "width", "heads": "auto", "params": params}, "args": {}, "name": "ä"}
    with pytest.raises(StudyChangedError) as caught:
        check_unchanged("vit", BEFORE, now)
    assert str(caught.value) == (
        "5 problems:\n"
        "  - seed: was 0 when study 'vit' began, is now 1\n"
        "  - space.heads: was [1, 2] when study 'vit' began, is now \"auto\"\n"
        "  - space.params: was {} when study 'vit' began, "
        'is now {"lr": {"low": 0.1, "high": 1.0}, "wd": {"choices": [1, 2]}}\n'
        "  - args.n: was 1 when study 'vit' began, is now not there\n"
        "  - args.m: was {} when study 'vit' began, is now not there; "
        "more trials or other resources are fine; for anything else change it back, or choose another name or output"
    )


def test_one_change_is_one_sentence() -> None:
    with pytest.raises(StudyChangedError) as caught:
        check_unchanged("vit", {"seed": 0}, {"seed": 1})
    assert str(caught.value) == (
        "seed: was 0 when study 'vit' began, is now 1; "
        "more trials or other resources are fine; for anything else change it back, or choose another name or output"
    )
