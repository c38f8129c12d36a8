import pickle

import pytest

from headtune.errors import SpaceError
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.setting import HeadRange, Settings, Stages
from headtune.heads.site import AttentionSite, Role


def site(path: str, role: Role) -> AttentionSite:
    return AttentionSite(path=path, role=role, embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)


SITES = (site("encoder.0", "self"), site("decoder.0.self", "causal"), site("decoder.0.cross", "cross"))


def test_only_hold_must_be_said() -> None:
    options = SpaceOptions(hold="width")
    assert options.settings(SITES) == {here.path: Settings("auto", "same", "same") for here in SITES}
    assert options.maximum is None


def test_options_with_lists_hash_compare_and_pickle() -> None:
    options = SpaceOptions(hold="width", heads=[1, 2], kv_heads=[1], tie=Stages(2), head_dim=HeadDimConstraint(min=4))
    assert options == SpaceOptions(
        hold="width", heads=(1, 2), kv_heads=(1,), tie=Stages(2), head_dim=HeadDimConstraint(min=4)
    )
    assert len({options, pickle.loads(pickle.dumps(options))}) == 1


def test_an_override_changes_only_what_it_names_and_the_last_one_wins() -> None:
    options = SpaceOptions(
        hold="head_dim",
        heads=[4],
        sites={
            "decoder.*": SiteOptions(heads=[1, 2], kv_heads=[1]),
            "role=cross": SiteOptions(heads=HeadRange(max=2), head_dims=[16]),
        },
    )
    assert options.settings(SITES) == {
        "encoder.0": Settings((4,), "same", "same"),
        "decoder.0.self": Settings((1, 2), (1,), "same"),
        "decoder.0.cross": Settings(HeadRange(max=2), (1,), (16,)),
    }


def test_the_maximum_is_over_all_settings() -> None:
    overrides = {"a": SiteOptions(heads=[1, 12]), "b": SiteOptions(heads=HeadRange(max=9)), "c": SiteOptions()}
    assert SpaceOptions(hold="head_dim", heads=[4], sites=overrides).maximum == 12


def test_a_selector_that_matches_nothing_is_a_problem() -> None:
    options = SpaceOptions(hold="width", sites={"role=self": SiteOptions(), "enc": SiteOptions(heads=[1])})
    assert options.selector_problems(SITES) == [
        "sites: 'enc' matches no site; sites: encoder.0, decoder.0.self, decoder.0.cross"
    ]


def test_all_values_without_a_meaning_are_refused_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        SpaceOptions(
            hold="heads",  # type: ignore[arg-type]
            tie="all",  # type: ignore[arg-type]
            heads=[],
            kv_heads="none",  # type: ignore[arg-type]
            sites={"role=cross": SiteOptions(heads=[0], kv_heads=HeadRange())},  # type: ignore[arg-type]
        )
    assert str(caught.value) == (
        "6 problems:\n"
        "  - hold: 'heads' is not known; write width or head_dim\n"
        "  - tie: 'all' is not known; write none, uniform, ramp or stages\n"
        "  - heads: the list is empty; name at least one number, or write auto\n"
        "  - kv_heads: 'none' is not known; write same or auto, or a list of whole numbers\n"
        "  - sites: role=cross: heads: 0 is not a whole number of at least 1\n"
        "  - sites: role=cross: kv_heads: '{min: 1}' is not known; write same or auto, or a list of whole numbers"
    )


def test_head_dims_are_not_searched_under_hold_width() -> None:
    with pytest.raises(SpaceError) as caught:
        SpaceOptions(hold="width", head_dims=[16, 32], sites={"a": SiteOptions(head_dims=[8])})
    assert str(caught.value) == (
        "2 problems:\n"
        "  - head_dims: [16, 32] cannot be searched under hold: width, where head_dim follows from the head count; "
        "write head_dims: same, or hold: head_dim\n"
        "  - sites: a: head_dims: [8] cannot be searched under hold: width, where head_dim follows from the head "
        "count; write head_dims: same, or hold: head_dim"
    )


def test_values_of_the_wrong_kind_are_told_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        SpaceOptions(hold="x", tie=3, sites=[1], head_dim=8)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "hold: 'x' is not known; write width or head_dim",
        "tie: '3' is not known; write none, uniform, ramp or stages",
        "sites: must be a mapping of selector to SiteOptions (got [1])",
        "head_dim: must be a HeadDimConstraint (got 8)",
    )
    with pytest.raises(SpaceError, match=r"^sites: enc\.\*: must be SiteOptions \(got \{'heads': 4\}\)$"):
        SpaceOptions(hold="width", sites={"enc.*": {"heads": 4}})  # type: ignore[dict-item]
