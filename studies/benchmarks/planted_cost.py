"""Is a known cost of a head found?

Three attention blocks, each of which is busy for a known time per head beside its real, tiny attention. Again and
again a few plans are measured, a latency model is fitted on them, and one block's cost per head is read off it with its
95 % interval. Exits 0 where at least 90 of 100 intervals hold the planted cost and half of them are no wider than 30 %
of it.

    python studies/benchmarks/planted_cost.py [--times 100] [--plans 10] [--seconds 0.15]
"""

import argparse
import sys
import time
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import headtune
from headtune import HeadCount, HeadPlan, LatencyProtocol, SearchSpace, SpaceOptions
from headtune.timing.prediction import Estimate, LatencyModel, TimedPlan, informative_plans

D_MODEL, HEADS = 32, 4
COSTS_MS = (0.2, 0.3, 0.5)
"""Planted per head, by block; what a head of the real attention adds is small beside it, and measured."""


class CostlyAttention(nn.Module):
    """Self-attention that is busy for a while for each of its heads."""

    def __init__(self, cost_ms: float) -> None:
        super().__init__()
        self.num_heads, self.cost_ms = HEADS, cost_ms
        self.qkv, self.out = nn.Linear(D_MODEL, 3 * D_MODEL), nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, E)."""
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        output: Tensor = self.out(mixed)
        end = time.perf_counter() + self.num_heads * self.cost_ms / 1e3
        while time.perf_counter() < end:
            pass
        return output


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random vectors."""
    return (torch.randn(batch_size, 8, D_MODEL),)


def own_cost_ms() -> float:
    """What a head of the real attention costs, by the block without any planted cost with 8 heads beside 1."""
    block = nn.Sequential(CostlyAttention(0.0)).eval()
    sites = headtune.sites(block, inputs(3, None))
    few, many = (
        headtune.apply(block, HeadPlan.parse(f"*={heads}", sites, hold="width"), inputs(3, None)) for heads in (1, 8)
    )
    protocol = LatencyProtocol(device="cpu", threads=1, batch_size=1, min_samples=1000, precision=0.002)
    found = headtune.measure(many, inputs, protocol, reference=few)
    return (found.ratio - 1) * (found.reference_median_ms or 0.0) / 7


class Recovery:
    """Measures the plans of one design, as often as it is asked."""

    def __init__(self, plans: int, seconds: float) -> None:
        self.model = nn.Sequential(*[CostlyAttention(cost_ms) for cost_ms in COSTS_MS]).eval()
        self.sites = headtune.sites(self.model, inputs(3, None))
        space = SearchSpace.of(self.sites, SpaceOptions(hold="width", heads=(1, 2, 4, 8)))
        chosen = informative_plans(space, plans, seed=0)
        self.models = {plan: headtune.apply(self.model, plan, inputs(3, None)) for plan in chosen}
        self.protocol = LatencyProtocol(
            device="cpu", threads=1, batch_size=1, min_samples=10, max_seconds=seconds, precision=0.01
        )

    def per_head_ms(self, site: int) -> Estimate:
        """What one head costs at a block, by measurements taken anew."""
        timed, references = [], []
        for plan, planned in self.models.items():
            found = headtune.measure(planned, inputs, self.protocol, reference=self.model)
            timed.append(TimedPlan(plan=plan, ratio=found.ratio, ratio_interval=found.ratio_interval))
            references.append(found.reference_median_ms or 0.0)
        model = LatencyModel.fit(self.sites, "width", timed)
        ends = (HeadCount(1, 1, D_MODEL), HeadCount(8, 8, D_MODEL // 8))
        return model.per_head(self.sites[site].path, ends).times(median(references))


def main() -> int:
    """Recover, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=100, help="how often each cost is sought")
    parser.add_argument("--plans", type=int, default=10, help="plans that are measured each time")
    parser.add_argument("--seconds", type=float, default=0.15, help="length of one measurement")
    asked = parser.parse_args()
    began, recovery, own = time.monotonic(), Recovery(asked.plans, asked.seconds), own_cost_ms()
    held, widths, values = [], [], []
    for turn in range(asked.times):
        planted = COSTS_MS[turn % len(COSTS_MS)] + own
        found = recovery.per_head_ms(turn % len(COSTS_MS))
        low, high = found.interval
        held.append(low <= planted <= high)
        widths.append((high - low) / planted)
        values.append(found.value / planted)
    print(
        f"blocks with {', '.join(f'{cost:g}' for cost in COSTS_MS)} ms a head, to which the real "
        f"attention adds {own:.4f}; {asked.plans} plans measured each time; "
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
