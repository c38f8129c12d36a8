import pytest

from headtune.surgery.wiring import Wiring

A, B, C, D = (frozenset({2 * n, 2 * n + 1}) for n in range(4))


def wiring(**sides: object) -> Wiring:
    """Four heads of two features; neighbours share keys and values."""
    given = {
        "q": tuple({"q": one} for one in (A, B, C, D)),
        "k": tuple({"kv": one} for one in (A, A, B, B)),
        "v": tuple({"kv": one} for one in (C, C, D, D)),
        "out": tuple({"out": one} for one in (A, B, C, D)),
    }
    return Wiring(**{**given, **sides})


def test_heads_are_counted_by_what_differs() -> None:
    assert (wiring().num_heads, wiring().num_kv_heads) == (4, 2)
    assert wiring().kv_heads == (0, 0, 1, 1)
    assert wiring(k=tuple({"k": one} for one in (A, B, A, B))).kv_heads == (0, 1, 0, 1)
    assert wiring(k=({"k": A},) * 4).num_kv_heads == 1


def test_what_heads_are_made_of_is_the_union_of_their_sides() -> None:
    assert wiring().of_heads([0]) == {"q": A, "kv": A | C}
    assert wiring().of_heads([0, 3]) == {"q": A | D, "kv": A | B | C | D}
    assert wiring().of_heads([]) == {}
    assert wiring().read_from([1, 2]) == {"out": B | C}


def test_projections_that_make_or_read_only_some_heads_count_for_these() -> None:
    out = ({"left": A}, {"left": B}, {"right": A}, {"right": B})
    assert wiring(out=out).read_from([0, 3]) == {"left": A, "right": B}


def test_grouped_heads_are_not_mixed() -> None:
    assert wiring().why_mixed() is None
    both = tuple({"k": one, "k_up": one} for one in (A, A, B, B))
    assert wiring(k=both).why_mixed() is None


SHARE = (
    "the {} of its heads share features of {}: a norm over all heads, one map for every head or the like, "
    "so that no head can go alone; keep all its heads"
)


@pytest.mark.parametrize(
    ("side", "features", "reason"),
    [
        ("q", ({"q": A}, {"q": A}, {"q": C}, {"q": D}), SHARE.format("queries", "q")),
        ("q", ({"q": A}, {"q": A | B}, {"q": C}, {"q": D}), SHARE.format("queries", "q")),
        ("k", ({"k": A}, {"k": A | B}, {"k": C}, {"k": D}), SHARE.format("keys", "k")),
        ("k", tuple({"k": one, "shared": A} for one in (A, B, C, D)), SHARE.format("keys", "shared")),
        ("v", tuple({"v": one | A} for one in (B, C, D, D)), SHARE.format("values", "v")),
        (
            "v",
            ({"v": A}, {}, {"v": B}, {"v": B}),
            "its values come from no projection that could be followed (a quantised layer, detach() or an autograd "
            "function of its own may stand between); let an nn.Linear make them, or keep all its heads",
        ),
        (
            "k",
            tuple({"": one} for one in (A, A, B, B)),
            "its keys come from a weight that is computed in the forward pass; "
            "remove weight_norm, quantisation or the like first",
        ),
        (
            "out",
            tuple({"": one} for one in (A, B, C, D)),
            "its output is read by a weight that is computed in the forward pass; "
            "remove weight_norm, quantisation or the like first",
        ),
    ],
)
def test_heads_that_cannot_be_told_apart_have_a_reason(side: str, features: object, reason: str) -> None:
    assert wiring(**{side: features}).why_mixed() == reason
