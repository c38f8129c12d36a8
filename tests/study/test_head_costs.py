"""What a head costs at each site: planted costs are found, and sites that belong together share a row."""

from random import Random

import pytest

from headtune.heads import AttentionSite, HeadPlan, HeadRange, SearchSpace, SiteOptions, SpaceOptions, Stages
from headtune.study.head_costs import head_costs
from headtune.timing.prediction import LatencyModel, TimedPlan

SITES = tuple(
    AttentionSite(path=path, role="self", embed_dim=64, num_heads=4, num_kv_heads=4, head_dim=16)
    for path in ("encoder.0.attn", "encoder.1.attn", "encoder.2.attn", "decoder.0.attn", "decoder.1.attn")
)
COST = {"encoder": 0.01, "decoder": 0.04}
"""Of a head, by stack, as a share of the present latency."""


def space(**options: object) -> SearchSpace:
    return SearchSpace.of(SITES, SpaceOptions(hold="head_dim", heads=HeadRange(min=1, max=8), **options))  # type: ignore[arg-type]


def fitted(plans: list[HeadPlan]) -> LatencyModel:
    """The model of plans that take exactly what their heads cost."""
    ratios = [1 + sum(COST[path[:7]] * (count.num_heads - 4) for path, count in plan) for plan in plans]
    timed = [
        TimedPlan(plan=p, ratio=r, ratio_interval=(r - 1e-3, r + 1e-3)) for p, r in zip(plans, ratios, strict=True)
    ]
    return LatencyModel.fit(SITES, "head_dim", timed)


def random_plans(of: SearchSpace, count: int = 30) -> list[HeadPlan]:
    rng = Random(0)
    return [HeadPlan.present(SITES), *(of.sample(rng) for _ in range(count))]


def test_alike_sites_share_a_row() -> None:
    free = space()
    encoder, decoder = head_costs(fitted(random_plans(free)), free, None)
    assert (encoder.name, encoder.paths) == ("encoder.*.attn", tuple(site.path for site in SITES[:3]))
    assert (decoder.name, decoder.counts) == ("decoder.*.attn", (1, 8))
    assert encoder.ratio.value == pytest.approx(0.01, abs=0.003)
    assert decoder.ratio.value == pytest.approx(0.04, abs=0.003)
    assert decoder.measurable


def test_tied_sites_share_a_row_whatever_they_are() -> None:
    (both,) = head_costs(fitted(random_plans(space(tie="uniform"))), space(tie="uniform"), None)
    assert both.name == "encoder.0.attn … decoder.1.attn"
    assert both.ratio.value == pytest.approx((3 * 0.01 + 2 * 0.04) / 5, abs=0.003)
    staged = space(tie=Stages(2))
    names = [cost.name for cost in head_costs(fitted(random_plans(staged)), staged, None)]
    assert names == ["encoder.0.attn … encoder.1.attn", "encoder.2.attn", "decoder.*.attn"]


def test_other_choices_make_another_row_and_none_makes_none() -> None:
    some = space(sites={"encoder.0.attn": SiteOptions(heads=(4,)), "encoder.1.attn": SiteOptions(heads=(2, 4))})
    rows = head_costs(fitted(random_plans(some)), some, None)
    assert [(row.paths, row.counts) for row in rows] == [
        (("encoder.1.attn",), (2, 4)),
        (("encoder.2.attn",), (1, 8)),
        (("decoder.0.attn", "decoder.1.attn"), (1, 8)),
    ]
