"""A model of a plan's latency: the present plan's, and what each site adds to it or takes away."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, get_args

import headtune.rules as rules
from headtune.errors import InputError
from headtune.heads import AttentionSite, HeadCount, HeadPlan, Hold
from headtune.timing.prediction.estimate import Estimate, HeldOutError, TimedPlan
from headtune.timing.prediction.features import kind_of
from headtune.timing.prediction.regression import Regression, held_out

FEWEST = 4
"""Plans at each length, fewer of which say nothing of their own error."""


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Predicts a plan's latency over the present plan's, at each sequence length that was measured.

    The effects of the sites add up. Those of one kind (the same stack, role and sizes) share the effect of a count and
    deviate from it a little, so that few measurements say much of many sites: a Bayesian linear regression whose
    strengths of noise and of effects come from the data (MacKay, *Bayesian Interpolation*, 1992).

    Attributes:
        sites: the model's, in order.
        hold: what stayed the same when the counts changed.
        timed: the measured plans that it was fitted on.
    """

    sites: tuple[AttentionSite, ...]
    hold: Hold
    timed: tuple[TimedPlan, ...]

    @classmethod
    def fit(cls, sites: Iterable[AttentionSite], hold: Hold, timed: Iterable[TimedPlan]) -> "LatencyModel":
        """The model of the given measurements.

        Args:
            sites: the model's.
            hold: of all the plans; what a head costs under the other one is another question.
            timed: plans that were measured in pairs with the present one, at one or more sequence lengths.

        Raises:
            InputError: an argument of the wrong kind, too few plans at a length, or plans of another model.
        """
        given, measured = _checked(sites, hold, timed)
        paths = tuple(site.path for site in given)
        problems = [
            f"LatencyModel.fit: a plan has the sites {', '.join(one.plan.paths)}; the model has {', '.join(paths)}"
            for one in measured
            if one.plan.paths != paths
        ]
        lengths = list(dict.fromkeys(one.seq_len for one in measured)) or [None]
        for length in lengths:
            distinct = {one.plan for one in measured if one.seq_len == length}
            if len(distinct) < FEWEST:
                at = "" if length is None else f" at length {length}"
                problems.append(
                    f"LatencyModel.fit: {len(distinct)} measured plans{at}; measure {FEWEST} or more that differ"
                )
        if problems:
            raise InputError(*dict.fromkeys(problems))
        return cls(sites=given, hold=hold, timed=measured)

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The sequence lengths that it knows."""
        return tuple(dict.fromkeys(one.seq_len for one in self.timed))

    def predict(self, plan: HeadPlan, seq_len: int | None = None) -> Estimate:
        """The ratio that measuring *plan* would give, with the interval of one such measurement.

        Raises:
            InputError: a length or a site that was not measured, or a count beyond those that were.
        """
        self._check_length(seq_len)
        if not isinstance(plan, HeadPlan):
            raise InputError(f"LatencyModel.predict: plan: must be a HeadPlan{rules.came(plan)}")
        problems = [problem for path, count in plan for problem in self._strange(path, count)]
        if problems or plan.paths != tuple(site.path for site in self.sites):
            raise InputError(*(problems or ["the plan is not one of the model's sites; make it of the same sites"]))
        return self._regressions[seq_len].predict(plan)

    def per_head(self, path: str, counts: tuple[HeadCount, HeadCount], seq_len: int | None = None) -> Estimate:
        """What one more head costs at a site on average between two counts, the other sites as at present.

        Args:
            path: the site's.
            counts: a smaller and a larger one.
            seq_len: which of the lengths.

        Returns:
            In the present plan's latencies; times its milliseconds it is milliseconds a head.

        Raises:
            InputError: a length or a site that was not measured, a count beyond those that were, or two counts with as
                many heads.
        """
        return self.mean_per_head({path: counts}, seq_len)

    def mean_per_head(self, counts: Mapping[str, tuple[HeadCount, HeadCount]], seq_len: int | None = None) -> Estimate:
        """What one more head costs on average at some sites: the mean is surer than what is said of each.

        Args:
            counts: path → a smaller and a larger count, for each of the sites.
            seq_len: which of the lengths.

        Returns:
            As :meth:`per_head`.

        Raises:
            InputError: as :meth:`per_head`.
        """
        self._check_length(seq_len)
        sound = rules.each(HeadCount, "HeadCount")
        if not counts or any(sound(pair) or len(pair) != 2 for pair in counts.values()):
            raise InputError("per_head: counts: give for each path two HeadCounts, a smaller and a larger one")
        problems = []
        for path, (low, high) in counts.items():
            problems += [*self._strange(path, low), *self._strange(path, high)]
            if low.num_heads >= high.num_heads:
                problems.append(f"per_head: {path}: {low} to {high} adds no head; give a smaller and a larger count")
        if problems:
            raise InputError(*dict.fromkeys(problems))
        present = dict(HeadPlan.present(self.sites).counts)
        ends = [HeadPlan.of({**present, **{path: pair[end] for path, pair in counts.items()}}) for end in (0, 1)]
        added = sum(high.num_heads - low.num_heads for low, high in counts.values())
        return self._regressions[seq_len].difference(*ends).times(1 / added)

    @cached_property
    def error(self) -> HeldOutError:
        """How well plans are predicted that were left out of the fit, each once, over all lengths."""
        return held_out(self.sites, list(self._by_length.values()))

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "sites": [asdict(site) for site in self.sites],
            "hold": self.hold,
            "timed": [one.to_json() for one in self.timed],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LatencyModel":
        """The inverse of :meth:`to_json`."""
        sites = [AttentionSite(**site) for site in data["sites"]]
        return cls.fit(sites, data["hold"], [TimedPlan.from_json(one) for one in data["timed"]])

    @cached_property
    def _regressions(self) -> dict[int | None, Regression]:
        return {length: Regression.fit(self.sites, timed) for length, timed in self._by_length.items()}

    @property
    def _by_length(self) -> dict[int | None, list[TimedPlan]]:
        return {length: [one for one in self.timed if one.seq_len == length] for length in self.lengths}

    @cached_property
    def _measured(self) -> dict[object, tuple[HeadCount, ...]]:
        """Kind → the counts that were measured at its sites, the present one included."""
        found: dict[object, set[HeadCount]] = {}
        for site in self.sites:
            found.setdefault(kind_of(site), {site.present}).update(one.plan[site.path] for one in self.timed)
        return {kind: tuple(sorted(counts)) for kind, counts in found.items()}

    def _strange(self, path: str, count: HeadCount) -> list[str]:
        """What the measurements do not reach."""
        site = next((site for site in self.sites if site.path == path), None)
        if site is None:
            return [f"{path} is no site of this latency model; its sites: {', '.join(one.path for one in self.sites)}"]
        counts = self._measured[kind_of(site)]
        for name in HeadCount._fields:
            least, most = (reach(getattr(one, name) for one in counts) for reach in (min, max))
            value = getattr(count, name)
            if not least <= value <= most:
                beyond = f"{path}: {name} {value} lies beyond the measured {least} to {most}"
                return [f"{beyond}; measure plans that reach it"]
        return []

    def _check_length(self, seq_len: int | None) -> None:
        if seq_len not in self.lengths:
            known = ", ".join(map(str, self.lengths))
            raise InputError(f"no plan was measured at length {seq_len}; known: {known}")


def _checked(
    sites: Iterable[AttentionSite], hold: Hold, timed: Iterable[TimedPlan]
) -> tuple[tuple[AttentionSite, ...], tuple[TimedPlan, ...]]:
    """What a model is fitted on, each once gone through.

    Raises:
        InputError: every argument of the wrong kind.
    """
    given: Any = tuple(sites) if isinstance(sites, Iterable) else sites
    measured: Any = tuple(timed) if isinstance(timed, Iterable) else timed
    problems = rules.broken(
        {
            "sites": (given, rules.each(AttentionSite, "AttentionSite", 1)),
            "hold": (hold, rules.one_of(get_args(Hold))),
            "timed": (measured, rules.each(TimedPlan, "TimedPlan")),
        }
    )
    if problems:
        raise InputError(*(f"LatencyModel.fit: {problem}" for problem in problems))
    return given, measured
