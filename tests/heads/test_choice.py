import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import PlanError
from headtune.heads.choice import HeadChoice
from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite

SITE = AttentionSite(path="attn", role="self", embed_dim=64, num_heads=8, num_kv_heads=4, head_dim=8)
NUMBERS = st.integers(1, 999_999_999)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("8", HeadChoice(8)),
        ("8/2", HeadChoice(8, 2)),
        ("8x32", HeadChoice(8, None, 32)),
        ("8/2x32", HeadChoice(8, 2, 32)),
        ("008", HeadChoice(8)),
    ],
)
def test_parse_reads_what_is_written(text: str, choice: HeadChoice) -> None:
    assert HeadChoice.parse(text) == choice


@given(st.builds(HeadChoice, NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS))
def test_str_parses_back(choice: HeadChoice) -> None:
    assert HeadChoice.parse(str(choice)) == choice


@pytest.mark.parametrize(
    "text", ["", "x", "8/", "8x", "/2", "x32", "8x32/2", "-8", "+8", "8.0", "8 /2", "٨", "1" * 5000]
)
def test_parse_refuses_other_text(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        HeadChoice.parse(text)
    assert str(caught.value) == (
        f"'{text}' is not a head count; write heads[/kv_heads][xhead_dim], as in 8, 8/2 or 8/2x32"
    )


@pytest.mark.parametrize("text", ["0", "8/0", "8x0", "0/0x0"])
def test_parse_refuses_zeros(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        HeadChoice.parse(text)
    assert str(caught.value) == f"'{text}' holds a zero; heads, kv_heads and head_dim are at least 1"


def test_what_is_left_out_follows_from_the_hold() -> None:
    assert HeadChoice(4).at(SITE, "width") == HeadCount(4, 2, 16)
    assert HeadChoice(4).at(SITE, "head_dim") == HeadCount(4, 2, 8)


def test_what_is_written_is_taken() -> None:
    assert HeadChoice(4, 1, 32).at(SITE, "head_dim") == HeadCount(4, 1, 32)
    assert HeadChoice(4, 4).at(SITE, "width") == HeadCount(4, 4, 16)
