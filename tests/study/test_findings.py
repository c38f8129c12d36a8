"""What a profile means, in words: each sentence for the numbers that it is true of."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headtune.study import Profile, ProfileDetails, profile_findings
from headtune.timing.prediction import Estimate
from headtune.timing.traits import LaunchTest

MakeProfile = Callable[..., Profile]
MakeDetails = Callable[..., ProfileDetails]

LAUNCH: dict[str, Any] = {"fixed": 0.8, "fixed_interval": (0.7, 0.9), "weights": 0.1, "batch_sizes": (4, 2)}


def test_a_whole_page(make_profile: MakeProfile) -> None:
    assert profile_findings(make_profile()) == (
        "attention is 23% of the pass [21%, 25%]: even no attention at all would save no more",
        "not launch-bound: 20% of the time [10%, 30%] does not change with the batch, the rest grows with the work",
        "heads move latency: one more at the dearest site, layers.*.attn, adds 1.00% [0.50%, 1.50%], on average "
        "between 1 and 8 heads",
        "the fastest of these plans, smallest, saves 20% [18%, 22%]",
        "attention kernel: flash at every site",
    )


def test_without_details_nothing_is_said(make_profile: MakeProfile) -> None:
    assert profile_findings(replace(make_profile(), details=None)) == ()


@pytest.mark.parametrize(
    ("launch", "sentence"),
    [
        (
            LaunchTest(bound="launch", **LAUNCH),
            "launch-bound: 80% of the time [70%, 90%] does not change with the batch; fewer heads will not save time "
            "at a batch of 4: raise the batch, compile, or use fewer layers",
        ),
        (
            LaunchTest(bound="weights", **{**LAUNCH, "weights": 0.6}),
            "bound by reading the weights: 80% of the time [70%, 90%] does not change with the batch, and reading them "
            "takes 60%; heads save time here as far as they save weights, and a larger batch shares the reading",
        ),
        (
            LaunchTest(bound="unclear", **LAUNCH),
            "whether the pass is launch-bound is within the noise: 80% of the time [70%, 90%] does not change with the "
            "batch; raise latency.max_seconds to tell",
        ),
        (
            None,
            "whether the pass is launch-bound is unknown: inputs returns the same sizes whatever the batch size",
        ),
    ],
)
def test_what_bounds_the_pass(
    launch: LaunchTest | None, sentence: str, make_profile: MakeProfile, make_details: MakeDetails
) -> None:
    traits = replace(make_details().traits, launch=launch)
    assert profile_findings(make_profile(details=make_details(traits=traits)))[1] == sentence


def test_a_share_that_is_of_more_than_attention_says_so(make_profile: MakeProfile, make_details: MakeDetails) -> None:
    traits = make_details().traits
    apart = replace(traits, share=replace(traits.share, ordinary=True, interval=(-0.01, 0.25)))
    assert profile_findings(make_profile(details=make_details(traits=apart)))[0] == (
        "attention is 23% of the pass [0%, 25%] on PyTorch's ordinary path, since its fused encoder layers cannot be "
        "taken apart: even no attention at all would save no more"
    )
    blocks = replace(traits, blocks=("layers.0",))
    assert profile_findings(make_profile(details=make_details(traits=blocks)))[0] == (
        "attention is 23% of the pass [21%, 25%], with all else that layers.0 hold: fewer heads save less than that"
    )


def test_heads_that_move_nothing(make_profile: MakeProfile, make_details: MakeDetails) -> None:
    cost = replace(make_details().costs[0], ratio=Estimate(value=0.003, interval=(-0.001, 0.007)))
    found = profile_findings(
        make_profile(
            ratios={"smallest": 0.99, "present": 1.0, "largest": 1.01},
            details=make_details(
                costs=(replace(cost, name="a", ratio=Estimate(value=-0.01, interval=(-0.02, 0.01))), cost)
            ),
        )
    )
    assert found[2:4] == (
        "heads do not move latency measurably here: one more at the dearest site, layers.*.attn, adds 0.30% [-0.10%, "
        "0.70%]",
        "none of smallest, largest differs significantly from the present plan",
    )


def test_heads_that_save_time(make_profile: MakeProfile, make_details: MakeDetails) -> None:
    cost = replace(make_details().costs[0], ratio=Estimate(value=-0.02, interval=(-0.03, -0.01)))
    found = profile_findings(
        make_profile(ratios={"smallest": 1.2, "present": 1.0, "largest": 1.01}, details=make_details(costs=(cost,)))
    )
    assert found[2:4] == (
        "heads move latency: one more at the dearest site, layers.*.attn, adds -2.00% [-3.00%, -1.00%], on average "
        "between 1 and 8 heads",
        "none of smallest, largest is significantly faster than the present plan",
    )


def test_a_space_without_a_choice_has_no_cost_of_heads(make_profile: MakeProfile, make_details: MakeDetails) -> None:
    assert not any("head [" in sentence for sentence in profile_findings(make_profile(details=make_details(costs=()))))
