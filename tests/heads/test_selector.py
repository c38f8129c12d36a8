from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.heads.selector import select, unmatched
from headtune.heads.site import AttentionSite, Role


def site(path: str, role: Role = "self") -> AttentionSite:
    return AttentionSite(path=path, role=role, embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)


SITES = (
    site("encoder.layers.0.self_attn"),
    site("encoder.layers.1.self_attn"),
    site("decoder.layers.0.self_attn", "causal"),
    site("decoder.layers.0.cross_attn", "cross"),
)


@pytest.mark.parametrize(
    ("selector", "numbers"),
    [
        ("*", [0, 1, 2, 3]),
        ("encoder.*", [0, 1]),
        ("*.self_attn", [0, 1, 2]),
        ("*layers.0*", [0, 2, 3]),
        ("encoder.layers.1.self_attn", [1]),
        ("encoder.layers.?.self_attn", [0, 1]),
        ("encoder.layers.[1-9].self_attn", [1]),
        ("role=self", [0, 1]),
        ("role=causal", [2]),
        ("role=cross", [3]),
        ("encoder", []),
        ("Encoder.*", []),
        ("role=", []),
        ("", []),
    ],
)
def test_select_takes_whole_paths_and_roles(selector: str, numbers: list[int]) -> None:
    assert select(selector, SITES) == tuple(SITES[number] for number in numbers)


@given(st.lists(st.text(alphabet="ab*?[]=.", max_size=6), min_size=1, max_size=6, unique=True))
def test_a_path_selects_its_own_site_alone_whatever_signs_it_holds(paths: list[str]) -> None:
    sites = [site(path) for path in paths]
    for here in sites:
        assert select(here.path, sites) == (here,)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("enc", "'enc' matches no site; sites: a.b, a.c"),
        ("role=cross", "'role=cross' matches no site; sites: a.b (self), a.c (causal)"),
        ("role=crss", "'role=crss' names no role; roles: self, causal, cross"),
    ],
)
def test_unmatched_lists_what_could_have_been_named(selector: str, problem: str) -> None:
    assert unmatched(selector, (site("a.b"), site("a.c", "causal"))) == problem


def test_unmatched_says_when_there_is_nothing_to_name() -> None:
    assert unmatched("*", ()) == "'*' matches no site: the model has none"


def test_every_role_can_be_selected() -> None:
    for role in get_args(Role):
        assert select(f"role={role}", [site("a", role)])
