"""The search's broker: decides what to train next and which trial to stop, and remembers what came of it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headtune.heads import HeadPlan, SearchSpace
from headtune.pareto import reference_point
from headtune.search.budget import Budget, Tally
from headtune.search.codec import Codec
from headtune.search.course import Course
from headtune.search.draft import Draft, baseline_drafts, trial_key
from headtune.search.ledger import Ledger
from headtune.search.proposer import Proposer
from headtune.search.search_rules import SearchRules
from headtune.search.stopping import should_stop, stoppable
from headtune.trial import (
    Measurement,
    Observer,
    Outcome,
    Signal,
    Silent,
    TrialRecord,
    TrialRequest,
    TrialResult,
)
from headtune.trial.params import baseline_values

_SPEND_S = 5

_CHARTED = 20_000
"""Values of dimensions and params that a study keeps for a dashboard's charts at most.

Each is a row in Optuna's storage, of which 100,000 take minutes to write and half a minute to read, at each start. What
headtune itself needs of a trial is kept in one piece.
"""


class SearchBroker:
    """A :class:`headtune.trial.contract.Broker` over one ledger.

    First it starts again what an earlier driver left unfinished; then it trains the baselines; when they have ended it
    freezes the reference point; then the sampler proposes.

    Args:
        ledger: where everything is kept.
        space: the legal plans.
        rules: how the search goes.
        baselines: name → plan, trained first, in full, never stopped; a plan with several names is trained once.
        shortlist: trained after them, in this order, with the params' baseline values; no sampler proposes then.
        observer: hears of every change.

    Raises:
        SpaceError: a param is called like a site, or the sampler ``grid`` meets a continuous param.
    """

    def __init__(
        self,
        ledger: Ledger,
        space: SearchSpace,
        rules: SearchRules,
        *,
        baselines: Mapping[str, HeadPlan],
        shortlist: Sequence[HeadPlan] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._ledger = ledger
        self._rules = rules
        self._observer = observer or Silent()
        self._objectives = ledger.objectives
        self._codec = Codec(space, rules.params)
        self._proposer = Proposer(
            self._codec,
            objectives=self._objectives,
            limits=rules.limits,
            sampler=rules.sampler,
            trials=rules.trials,
            seed=rules.seed,
        )
        self._course = Course(ledger.book(rules.limits), rules.seed, rules.epochs, self._observer)
        params = baseline_values(rules.params)
        drafts = baseline_drafts(baselines, space, params)
        self._awaited, left_out = drafts[: rules.trials], drafts[rules.trials :]
        listed = [Draft(kind="search", plan=plan, params=params) for plan in shortlist or ()]
        self._shortlist = None if shortlist is None else listed
        self._budget = Budget(
            trials=rules.trials,
            concurrent=rules.concurrent,
            timeout_s=rules.timeout_s,
            baselines=len(self._awaited),
        )
        self._earlier_s = float(ledger.recall("elapsed_s") or 0.0)
        self._began = self._spent = time.monotonic()
        self._ending = ""
        self._misfit = self._misplaced = ""
        self._sampler = ""
        self._observer.plan(rules.trials, self._tally().trained)
        self._observer.earlier(self._course.ended)
        self._charted = rules.trials * len(self._codec.distributions) <= _CHARTED
        self._explain(left_out)

    @property
    def ending(self) -> str:
        """Why the search ended before its trials were trained; empty while it goes on, or where all were."""
        return self._ending

    @property
    def misfit(self) -> str:
        """Why the task does not fit the study, so that the search ended at once; empty where it does."""
        return self._misfit

    @property
    def misplaced(self) -> str:
        """Why latencies cannot be compared where the trials ran, so that the search ended; empty where they can."""
        return self._misplaced

    @property
    def believed(self) -> Mapping[int, float]:
        """Number of a finished trial → its quality as the search believes it, without the noise of its seed."""
        return self._proposer.believed(self._course.records)

    def propose(self) -> TrialRequest | Signal:
        """The next trial; ``WAIT`` until a running one ends; ``DONE`` when nothing is left to start."""
        if self._misfit or self._misplaced:
            return Signal.DONE
        tally = self._tally()
        signal = self._budget.signal(tally)
        if signal is Signal.DONE:
            return self._end(self._budget.exceeded(tally))
        if signal is Signal.WAIT:
            return signal
        began = time.perf_counter()
        draft = self._next(tally)
        if isinstance(draft, Signal):
            return draft
        names = self._rules.built_with
        twin = None if names is None else self._course.twin(draft, names)
        if twin is not None and twin.latency is None:
            self._course.again.appendleft(draft)
            return Signal.WAIT
        request = self._begin(draft, time.perf_counter() - began)
        return request if twin is None else replace(request, measurement=twin.measurement)

    def measured(self, number: int, measurement: Measurement) -> None:
        """Remember what is known of a trial before it trains."""
        self._course.measured(number, measurement)

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> bool:
        """Remember a report; ``True`` means: stop the trial now. A report of a trial that has ended is no news."""
        trial = self._course.report(number, step, metrics)
        if trial is None:
            return True
        stop = bool(self._misfit) or self._hopeless(trial, step)
        if stop:
            self._course.stop(number)
        return stop

    def finish(self, number: int, result: TrialResult) -> None:
        """Remember how a trial ended; a second call is ignored."""
        self.beat()  # a driver that lost the study, or its file, has nothing to say of a trial
        if result.misplaced:
            self._misplaced = result.message
            self._course.mislaid(number, result)
            return
        self._course.finish(number, result)
        if result.outcome is Outcome.OK:
            self._misfit = ""
        elif result.unfit and self._tally().trained == 0:
            self._misfit = self._misfit or result.message
        self._spend(force=True)

    def lost(self, number: int, reason: str) -> None:
        """A trial lost its worker: it is tried again before anything else, at most twice."""
        self._course.lost(number, reason)

    def beat(self) -> None:
        """Keep the lease on the study, and count the seconds."""
        self._ledger.beat()
        self._spend()

    def _begin(self, draft: Draft, ask_s: float) -> TrialRequest:
        encoded = self._codec.encode(draft.plan, draft.params) or {}
        values, distributions = self._codec.readable(encoded) if self._charted else ({}, {})
        return self._course.start(draft, values, distributions, {"ask": ask_s})

    @property
    def _stops(self) -> bool:
        """Whether hopeless trials are stopped: no longer where each plan was chosen as worth its whole training.

        Curves of plans alone cross up to their last epochs, and a plan that was given up wrongly costs more than what
        its last epochs do; a bad learning rate shows early.
        """
        return self._rules.stop_early and (self._sampler != "ehvi" or bool(self._rules.params))

    def _hopeless(self, trial: TrialRecord, step: int) -> bool:
        if trial.kind != "search" or not self._stops:
            return False
        return should_stop(trial, step, self._course.records, self._objectives, self._rules.epochs)

    def _next(self, tally: Tally) -> Draft | Signal:
        room = self._budget.room(tally)
        if self._course.again and room > 0:
            return self._course.again.popleft()
        if self._awaited:
            started = {trial_key(record.plan, record.params) for record in self._course.records}
            for draft in self._awaited:
                if draft.key not in started:
                    return draft
            ended = {trial_key(record.plan, record.params) for record in self._course.ended}
            self._awaited = [draft for draft in self._awaited if draft.key not in ended]
            if self._awaited:
                return Signal.WAIT
            self._freeze_reference()
        found = self._fresh(self._rules.trials - tally.trained) if room > 0 else None
        if found is not None:
            return found
        if self._course.running:
            return Signal.WAIT
        tried = "every combination in the space was tried"
        if self._shortlist is not None:
            tried = "every plan of the shortlist was tried"
        return self._end(tried if room > 0 else "")

    def _fresh(self, left: int) -> Draft | None:
        """The next of the shortlist, or what the sampler proposes, while trials are left to be begun."""
        if self._shortlist is not None:
            started = {trial_key(record.plan, record.params) for record in self._course.records}
            return next((draft for draft in self._shortlist if draft.key not in started), None)
        records = self._course.records
        choice = self._proposer.choose(records, left)
        if choice.name != self._sampler:
            self._sampler = choice.name
            self._observer.note(str(choice))
        return self._proposer.propose(records, choice)

    def _end(self, why: str) -> Signal:
        if why and why != self._ending:
            self._observer.note(f"the search ends here: {why}")
        self._ending = why
        self._spend(force=True)
        return Signal.DONE

    def _freeze_reference(self) -> None:
        """Fix the hypervolume's reference point, once, from the baselines that were trained to the end."""
        if self._ledger.recall("reference_point") is not None:
            return
        values = [
            [record.metrics[goal.metric] for goal in self._objectives]
            for record in self._course.ended
            if record.kind == "baseline" and record.outcome is Outcome.OK
        ]
        if values:
            self._ledger.remember("reference_point", reference_point(values, self._objectives))

    def _tally(self) -> Tally:
        outcomes = [record.outcome for record in self._course.ended if record.outcome is not None]
        trained = sum(outcome.trained for outcome in outcomes)
        infeasible = outcomes.count(Outcome.INFEASIBLE)
        return Tally(
            trained=trained,
            infeasible=infeasible,
            failed=len(outcomes) - trained - infeasible,
            running=len(self._course.running),
            elapsed_s=self._earlier_s + time.monotonic() - self._began,
        )

    def _spend(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._spent >= _SPEND_S:
            self._spent = now
            self._ledger.remember("elapsed_s", self._earlier_s + now - self._began)

    def _explain(self, left_out: Sequence[Draft]) -> None:
        """Say what a person would else wonder about."""
        if left_out:
            names = ", ".join(draft.label for draft in left_out)
            self._observer.note(f"{self._rules.trials} trials are fewer than the baselines; left out: {names}")
        if self._rules.stop_early and not stoppable(self._objectives):
            self._observer.note("no trial is stopped early: a learning curve shows one quality objective, not several")
        if not self._charted:
            self._observer.note(
                f"{self._rules.trials} trials of {len(self._codec.distributions)} choices are more than a dashboard's "
                "charts can show: it lists each trial with its heads, without a chart of every site"
            )
