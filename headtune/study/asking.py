"""A study that is asked by hand: the trials that are open, and what may be done with each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import nn

import headtune.rules as rules
from headtune.errors import Infeasible, InputError, SpecError
from headtune.execute import InlineExecutor
from headtune.heads import HeadPlan
from headtune.pareto.objective import is_measured
from headtune.search import Ledger, SearchBroker
from headtune.study.driver import broker_of, check_and_remember, open_ledger, prepare
from headtune.study.preparing import asked_metrics
from headtune.study.shortlisting import shortlist_of
from headtune.study.spec import StudySpec
from headtune.trial import Outcome, ParamValue, Silent, TrialRequest, TrialResult, TrialSetup
from headtune.trial.build import build_planned
from headtune.trial.forks import one_process
from headtune.trial.measuring import lane_of, measure_trial
from headtune.trial.metrics import reported_metrics

UNBOUNDED = 1_000_000
"""Trials of a study that is asked by hand: the person ends it."""


@dataclass(frozen=True, slots=True)
class AskedTrial:
    """A trial in the person's own loop.

    Attributes:
        request: what is wanted.
        asking: the opening of the study in which it was asked.
    """

    request: TrialRequest
    asking: "Asking"

    def __repr__(self) -> str:
        return f"AskedTrial({self.number}, '{self.plan.label}', params={dict(self.params)})"

    @property
    def number(self) -> int:
        """Its number in the study."""
        return self.request.number

    @property
    def plan(self) -> HeadPlan:
        """The head counts."""
        return self.request.plan

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The extra hyper-parameters."""
        return self.request.params

    @property
    def seed(self) -> int:
        """The seed that all plans are trained with."""
        return self.request.seed

    def build(self) -> nn.Module:
        """The model with the plan applied, measured, on the study's device.

        Every random generator is seeded with the trial's seed before, as in a search, so that trainings are comparable.

        Raises:
            Infeasible: it breaks a constraint; the study has been told already. Baselines are built all the same.
            InputError: the trial has ended, or its study is closed.
        """
        asking, setup, request = self.asking, self.asking.setup, self.request
        progress = asking.progress("build", request.number)
        task, lane = setup.task.load(), lane_of(setup)
        with lane.shared(), one_process():
            model = build_planned(setup, task, request.plan, request.params, request.seed)
            measurement = measure_trial(setup, task, request, model, lane)
        asking.broker.measured(request.number, measurement)
        progress.built = True
        if request.kind == "search" and not measurement.feasible:
            asking.finish(request.number, TrialResult(outcome=Outcome.INFEASIBLE, message=measurement.broken))
            raise Infeasible(f"{request.plan.label} {measurement.broken}")
        return model

    def report(self, step: int, **metrics: float) -> bool:
        """Tell a value on the way, the *step*-th from 1; ``True`` means that more epochs are not worth it.

        Raises:
            InputError: *step* is no whole number above the last one reported, the trial has ended, or its study is
                closed.
            MetricError: no metric, one that is not a number, or one that headtune measures itself.
        """
        progress = self.asking.progress("report", self.number)
        problems = rules.broken({"report: step": (step, rules.at_least(progress.step + 1, rules.LAST_COUNT))})
        if problems:
            raise InputError(*problems)
        values = reported_metrics(metrics, "report")
        progress.step = step
        return self.asking.broker.report(self.number, step, values)


@dataclass(slots=True)
class Progress:
    """How far an open trial is: whether it was built, and the last step that it reported."""

    built: bool = False
    step: int = 0


@dataclass(slots=True, eq=False)
class Asking:
    """A study from its first ask to its close.

    Attributes:
        measured: names of the objectives and limits that building measures.
    """

    ledger: Ledger
    broker: SearchBroker
    setup: TrialSetup
    measured: tuple[str, ...]
    _open: dict[int, Progress] = field(default_factory=dict)
    _closed: bool = False
    _process: int = field(default_factory=os.getpid)

    @classmethod
    def begin(cls, spec: StudySpec) -> "Asking":
        """Take the study's lease, check it, and profile in this process.

        Raises:
            SpecError: the study binds its latency to some machine.
        """
        if spec.resources.elsewhere:
            raise SpecError(
                f"ask: it times in this process, which {spec.resources.elsewhere} does not bind; leave that out, or "
                "use run(), which places trials"
            )
        # Without an end in sight nothing can be enumerated; the Gaussian process learns most from few trials.
        sampler = "gp" if spec.search.sampler == "auto" else spec.search.sampler
        spec = replace(spec, search=replace(spec.search, trials=UNBOUNDED, sampler=sampler))
        ledger = open_ledger(spec)
        try:
            checked = check_and_remember(spec, ledger, Silent())
            setup = prepare(spec, checked, ledger, InlineExecutor(), Silent())
            shortlist = shortlist_of(spec, checked, ledger, setup, InlineExecutor(), Silent())
            broker = broker_of(spec, checked, ledger, setup, UNBOUNDED, Silent(), shortlist)
        except BaseException:
            ledger.close()
            raise
        return cls(ledger, broker, setup, tuple(filter(is_measured, asked_metrics(spec))))

    def opened(self, request: TrialRequest) -> AskedTrial:
        """The trial of a request, open from now on."""
        self._open[request.number] = Progress()
        return AskedTrial(request, self)

    def keep(self, subject: str) -> None:
        """Keep the lease.

        Args:
            subject: what the messages begin with.

        Raises:
            InputError: the study is closed, or belongs to the process from which this one was forked.
            StudyBusyError: another driver took the study over.
            StorageError: the storage's file was removed or replaced.
        """
        if os.getpid() != self._process:
            raise InputError(f"{subject}: process {self._process} has the study, and forked this one; do it there")
        if self._closed:
            raise InputError(f"{subject}: its study was closed since; ask again: what was not told is asked anew")
        self.ledger.beat()

    def progress(self, verb: str, number: int) -> Progress:
        """The progress of an open trial; the lease is kept.

        Raises:
            InputError: as for :meth:`keep`; or the trial has ended.
        """
        self.keep(f"{verb}: trial {number}")
        if number not in self._open:
            raise InputError(f"{verb}: trial {number} has ended already; ask for the next one")
        return self._open[number]

    def finish(self, number: int, result: TrialResult) -> None:
        """End an open trial."""
        self.broker.finish(number, result)
        del self._open[number]

    def close(self) -> None:
        """Give the study back; a process that was forked from the one that has it leaves it alone."""
        self._closed = True
        if os.getpid() == self._process:
            self.ledger.close()
