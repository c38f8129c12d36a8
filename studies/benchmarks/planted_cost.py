"""Is a known cost of a head found?

Three attention blocks, each of which does a known number of equal matrix products per head beside its real, tiny
attention. Again and again a few plans are measured, a latency model is fitted on them, and one block's cost per head is
read off it with its 95 % interval, in the present plan's latencies. What that is in truth is measured where heads have
no part in it: in pairs with the present plan, the same model does more products at that block with the heads it has.
Exits 0 where at least 90 of 100 intervals hold the planted cost and half of them are no wider than 30 % of it.

    python studies/benchmarks/planted_cost.py [--times 100] [--plans 10] [--seconds 0.15]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import headtune
from headtune import HeadCount, LatencyProtocol, SearchSpace, SpaceOptions
from headtune.timing.prediction import Estimate, LatencyModel, TimedPlan, informative_plans

D_MODEL, HEADS = 32, 4
PRODUCTS = (40, 80, 120)
"""Planted per head, by block; a head of the real attention adds 1.4 % of the first at most, which is not counted."""

SIDE, TIMES = 32, 4
"""Small factors: large ones would push what the attention works on out of the caches, the more the more heads."""


class CostlyAttention(nn.Module):
    """Self-attention that does some products for each of its heads."""

    def __init__(self, products: int) -> None:
        super().__init__()
        self.num_heads, self.products = HEADS, products
        self.qkv, self.out = nn.Linear(D_MODEL, 3 * D_MODEL), nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, E)."""
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        output: Tensor = self.out(mixed)
        multiply(self.num_heads * self.products)
        return output


FACTOR = torch.rand(SIDE, SIDE)


def multiply(times: int) -> None:
    """The planted work."""
    for _ in range(times):
        torch.mm(FACTOR, FACTOR)


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random vectors."""
    return (torch.randn(batch_size, 8, D_MODEL),)


def built(products: Sequence[int]) -> nn.Module:
    """The model with so many products per head, by block."""
    return nn.Sequential(*map(CostlyAttention, products)).eval()


class Recovery:
    """Measures the plans of one design, as often as it is asked."""

    def __init__(self, plans: int, seconds: float) -> None:
        self.model = built(PRODUCTS)
        self.sites = headtune.sites(self.model, inputs(3, None))
        space = SearchSpace.of(self.sites, SpaceOptions(hold="width", heads=(1, 2, 4, 8)))
        chosen = informative_plans(space, plans, seed=0)
        self.models = {plan: headtune.apply(self.model, plan, inputs(3, None)) for plan in chosen}
        self.protocol = LatencyProtocol(
            device="cpu", threads=1, batch_size=1, min_samples=10, max_seconds=seconds, precision=0.01
        )

    def planted(self, site: int) -> float:
        """What a block's products of one head take, as a share of the present plan's latency: by doing more of them."""
        more = [products * (TIMES if at == site else 1) for at, products in enumerate(PRODUCTS)]
        ratio = headtune.measure(built(more), inputs, self.protocol, reference=self.model).ratio
        return (ratio - 1) / ((TIMES - 1) * HEADS)

    def found(self, site: int) -> Estimate:
        """What a head costs at a block, as a share of the present plan's latency, from measurements taken anew."""
        timed = []
        for plan, planned in self.models.items():
            found = headtune.measure(planned, inputs, self.protocol, reference=self.model)
            timed.append(TimedPlan(plan=plan, ratio=found.ratio, ratio_interval=found.ratio_interval))
        model = LatencyModel.fit(self.sites, "width", timed)
        ends = (HeadCount(1, 1, D_MODEL), HeadCount(8, 8, D_MODEL // 8))
        return model.per_head(self.sites[site].path, ends)


def main() -> int:
    """Recover, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=100, help="how often each cost is sought")
    parser.add_argument("--plans", type=int, default=10, help="plans that are measured each time")
    parser.add_argument("--seconds", type=float, default=0.15, help="length of one measurement")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    began, recovery = time.monotonic(), Recovery(asked.plans, asked.seconds)
    found: list[list[Estimate]] = [[] for _ in PRODUCTS]
    measured: list[list[float]] = [[] for _ in PRODUCTS]
    for turn in range(asked.times):
        site = turn % len(PRODUCTS)
        measured[site].append(recovery.planted(site))
        found[site].append(recovery.found(site))
    # One quantity a block, measured each time: its median is far surer than what is judged by it.
    pairs = [(one, median(shares)) for ones, shares in zip(found, measured, strict=True) for one in ones]
    held = [one.interval[0] <= truth <= one.interval[1] for one, truth in pairs]
    widths = [(one.interval[1] - one.interval[0]) / truth for one, truth in pairs]
    values = [one.value / truth for one, truth in pairs]
    print(
        f"blocks with {', '.join(map(str, PRODUCTS))} products a head; {asked.plans} plans measured each time; "
        f"{time.monotonic() - began:.0f} s"
    )
    print(
        f"{sum(held)} of {asked.times} intervals hold the planted cost; median width {median(widths):.0%} of it; "
        f"median of found / planted {median(values):.3f}"
    )
    holds = sum(held) >= 0.9 * asked.times and median(widths) <= 0.3
    print("holds" if holds else "does not hold", "(90 of 100, 30 %)")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
