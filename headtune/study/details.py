"""What a profile tells beside the latency of its plans: what the pass is made of, and what a head costs where."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headtune.timing import LongVariant
from headtune.timing.prediction import Estimate, HeldOutError
from headtune.trial.profiling import Kernels, PassTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCost:
    """What one more head costs at one site.

    Attributes:
        name: the site's path; of several sites, what their paths have in common.
        paths: the sites of this row: they share one count in the space, or are alike. The cost is their mean.
        counts: the head counts between which it holds on average.
        ratio: latency added by a head, as a share of the present plan's.
    """

    name: str
    paths: tuple[str, ...]
    counts: tuple[int, int]
    ratio: Estimate

    @property
    def measurable(self) -> bool:
        """Whether the interval leaves out 0."""
        low, high = self.ratio.interval
        return low > 0 or high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDetails:
    """What else is known of the model under the study's protocol.

    Attributes:
        traits: what a pass of the present plan is made of.
        kernels: plan name → path → the kernels that computed its attention.
        multiples: of what head dimensions should be multiples on this device, the least first.
        unaligned: plan name → path → the least of *multiples* that its head dimension misses.
        costs: of a head, by site; empty where no site's count can vary, or where the space has too few plans to tell.
        fitted: how many measured plans *costs* comes from.
        error: of the model behind *costs*, on plans that it had not seen; ``None`` without one.
        long: plan name → what a window and checkpointing would change; empty where sequences are short.
    """

    traits: PassTraits
    kernels: Mapping[str, Kernels]
    multiples: tuple[int, ...]
    unaligned: Mapping[str, Mapping[str, int]]
    costs: tuple[HeadCost, ...]
    fitted: int
    error: HeldOutError | None
    long: Mapping[str, tuple[LongVariant, ...]] = field(default_factory=dict)
