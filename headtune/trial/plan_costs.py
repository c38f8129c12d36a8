"""What a plan costs, as far as it is known before it is timed."""

from dataclasses import dataclass

from headtune.heads import HeadPlan, Hold
from headtune.pareto.objective import is_latency
from headtune.timing.prediction import LatencyModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCosts:
    """Orders plans by what is measured of them later.

    Attributes:
        hold: of the plans.
        latency: predicts their latencies; ``None`` where too few were timed.
    """

    hold: Hold
    latency: LatencyModel | None

    def of(self, metric: str, plan: HeadPlan, parameters: int) -> float:
        """A number that grows with the measured *metric*.

        Parameters are known. Latencies are predicted, in those of the present plan at the longest sequence length.
        Where nothing is, and for memory, the parameters stand in, or all heads together where plans have equally many.
        """
        if metric == "parameters":
            return parameters
        if is_latency(metric) and self.latency is not None:
            return self.latency.predict(plan, self.latency.lengths[-1]).value
        return parameters if self.hold == "head_dim" else sum(count.num_heads for _, count in plan)

    def words(self, metric: str) -> str:
        """What :meth:`of` goes by, in words."""
        if metric == "parameters":
            return "parameters"
        if is_latency(metric) and self.latency is not None:
            return f"predicted {metric}"
        return "parameters" if self.hold == "head_dim" else "the number of heads"
