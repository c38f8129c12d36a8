"""A study in Python: run it whole, or ask and tell inside an existing loop."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from torch import nn

from headtune.errors import Infeasible, InputError, TaskError
from headtune.execute import InlineExecutor
from headtune.heads import Constraint, HeadDimConstraint, HeadPlan, Limit, SpaceOptions
from headtune.pareto import Objective, ParetoFront
from headtune.search import Ledger, SearchBroker
from headtune.study.driver import broker_of, check_and_remember, open_ledger, prepare
from headtune.study.finalists import front_of
from headtune.study.narrator import Narrator
from headtune.study.reading import read
from headtune.study.record import StudyRecord
from headtune.study.searching import search
from headtune.study.spec import ExecutorName, Resources, SearchOptions, StudySpec, VerifyOptions
from headtune.timing import LatencyProtocol
from headtune.trial import (
    Observer,
    Outcome,
    Param,
    ParamValue,
    Signal,
    Silent,
    Task,
    TaskObject,
    TrialRecord,
    TrialRequest,
    TrialResult,
    TrialSetup,
    Weights,
)
from headtune.trial.build import build_planned
from headtune.trial.measuring import lane_of, measure_trial

UNBOUNDED = 1_000_000
"""Trials of a study that is asked by hand: the person ends it."""


class Study:
    """A search for head counts, from Python.

    Run it whole with :meth:`run`, or inside an existing loop with :meth:`ask`, :meth:`AskedTrial.build` and
    :meth:`tell`. Everything told is kept in the storage; the same study made again continues.

    Example:
        >>> study = Study(task, space=SpaceOptions(hold="width"), weights="fresh", objectives=goals)
        >>> study.run(trials=40)
        >>> study.front().knee().plan
    """

    def __init__(
        self,
        task: Task,
        *,
        space: SpaceOptions,
        weights: Weights,
        objectives: Sequence[Objective],
        constraints: Sequence[Constraint] = (),
        params: Mapping[str, Param] | None = None,
        latency: LatencyProtocol | None = None,
        epochs: int = 10,
        stop_early: bool = True,
        resources: Resources | None = None,
        name: str = "study",
        storage: str = "sqlite:///headtune.db",
        output: Path | str | None = None,
        seed: int = 0,
    ) -> None:
        """Describe the study; nothing runs and nothing is opened yet.

        Args:
            task: the problem.
            space: which counts may be tried.
            weights: ``fresh`` starts each trial from what ``task.model`` returns.
            objectives: at least one that the task reports, such as ``val_accuracy``; those that headtune measures
                (``latency_ms``, ``parameters``, ``peak_memory_mb``) beside it.
            constraints: on head_dim, or limits of what is measured.
            params: extra hyper-parameters, searched beside the counts.
            latency: how to time.
            epochs: what ``run.epochs`` says.
            stop_early: whether hopeless trials may be stopped.
            resources: what one trial gets.
            name: the study's name in the storage.
            storage: an Optuna storage URL.
            output: folder for models and checkpoints; ``None`` keeps neither.
            seed: of everything.

        Raises:
            SpecError: the description contradicts itself.
        """
        limits = tuple(one for one in constraints if isinstance(one, Limit))
        head_dims = [one for one in constraints if isinstance(one, HeadDimConstraint)]
        self._spec = StudySpec(
            name=name,
            task=TaskObject(task),
            space=replace(space, head_dim=head_dims[0]) if head_dims else space,
            weights=weights,
            objectives=tuple(objectives),
            limits=limits,
            params=params or {},
            latency=latency or LatencyProtocol(),
            search=SearchOptions(epochs=epochs, stop_early=stop_early),
            resources=resources or Resources(),
            storage=storage,
            output=None if output is None else Path(output),
            seed=seed,
        )
        self._asking: _Asking | None = None

    def run(
        self,
        trials: int = 40,
        *,
        executor: ExecutorName = "ray",
        verify: VerifyOptions | None = None,
        timeout_s: float | None = None,
        observer: Observer | None = None,
    ) -> StudyRecord:
        """Check, profile, search and verify; see :func:`headtune.study.searching.search` for what it raises.

        Args:
            trials: plans to train in all, over every call.
            executor: ``ray`` for workers, ``inline`` for this process.
            verify: how finalists are judged; five plans and three seeds if ``None``.
            timeout_s: bound of the search in wall seconds, over every call.
            observer: hears what happens; lines on stderr if ``None``.
        """
        self.close()
        options = replace(self._spec.search, trials=trials, timeout_s=timeout_s)
        spec = replace(self._spec, search=options, verify=verify or VerifyOptions(), executor=executor)
        return search(spec, observer or Narrator())

    def ask(self) -> "AskedTrial":
        """The next trial to train. The first call takes the study's lease and profiles in this process.

        Raises:
            InputError: nothing can be asked until a running trial is told, or the space is exhausted.
        """
        if self._asking is None:
            self._asking = _Asking.begin(self._spec)
        request = self._asking.broker.propose()
        if request is Signal.WAIT:
            raise InputError("the baselines come first: tell the trials you have before you ask for another")
        if request is Signal.DONE:
            raise InputError(f"nothing is left to ask: {self._asking.broker.ending}")
        return AskedTrial(request, self._asking.setup, self._asking.broker)

    def tell(self, trial: "AskedTrial", metrics: Mapping[str, float]) -> TrialRecord:
        """How *trial* ended: its final metrics, the objectives' among them.

        Raises:
            TaskError: a metric that is an objective is missing; the trial stays open.
        """
        if self._asking is None:
            raise InputError("this study is closed; ask again to go on")
        missing = [goal.metric for goal in self._spec.objectives if not goal.measured and goal.metric not in metrics]
        if missing:
            raise TaskError(f"tell: {', '.join(missing)} is missing; got {', '.join(metrics) or 'nothing'}")
        values = {name: float(value) for name, value in metrics.items()}
        wild = [name for name, value in values.items() if not math.isfinite(value)]
        outcome = Outcome.DIVERGED if wild else Outcome.OK
        self._asking.broker.finish(
            trial.number, TrialResult(outcome=outcome, message=outcome.sentence, metrics={} if wild else values)
        )
        return next(record for record in self._asking.ledger.trials() if record.number == trial.number)

    def record(self) -> StudyRecord:
        """Everything known so far.

        Raises:
            StorageError: the study holds nothing yet.
        """
        return read(self._spec)

    def front(self) -> ParetoFront[TrialRecord]:
        """The front of the finished, feasible trials."""
        return front_of(self.record().trials, self._spec.objectives)

    def close(self) -> None:
        """Give the study back; trials that were asked and not told are asked again next time."""
        if self._asking is not None:
            self._asking.ledger.close()
            self._asking = None

    def __enter__(self) -> "Study":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class AskedTrial:
    """A trial in the person's own loop.

    Attributes:
        request: what is wanted.
    """

    request: TrialRequest
    _setup: TrialSetup
    _broker: SearchBroker

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

        Raises:
            Infeasible: it breaks a constraint; the study has been told already. Baselines are built all the same.
        """
        setup, request = self._setup, self.request
        task, lane = setup.task.load(), lane_of(setup)
        with lane.shared():
            model = build_planned(setup, task, request.plan, request.params, request.seed)
            measurement = measure_trial(setup, task, request, model, lane)
        self._broker.measured(request.number, measurement)
        if request.kind == "search" and not measurement.feasible:
            result = TrialResult(outcome=Outcome.INFEASIBLE, message=measurement.broken)
            self._broker.finish(request.number, result)
            raise Infeasible(f"{request.plan.label} {measurement.broken}")
        return model

    def report(self, step: int, **metrics: float) -> bool:
        """Tell a value on the way, the *step*-th from 1; ``True`` means that more epochs are not worth it."""
        return self._broker.report(self.number, step, metrics)


@dataclass(frozen=True, slots=True)
class _Asking:
    ledger: Ledger
    broker: SearchBroker
    setup: TrialSetup

    @classmethod
    def begin(cls, spec: StudySpec) -> "_Asking":
        # Without an end in sight nothing can be enumerated; the Gaussian process learns most from few trials.
        sampler = "gp" if spec.search.sampler == "auto" else spec.search.sampler
        spec = replace(spec, search=replace(spec.search, trials=UNBOUNDED, sampler=sampler))
        ledger = open_ledger(spec)
        try:
            checked = check_and_remember(spec, ledger, Silent())
            setup = prepare(spec, checked, ledger, InlineExecutor(), Silent())
            return cls(ledger, broker_of(spec, checked, ledger, setup, UNBOUNDED, Silent()), setup)
        except BaseException:
            ledger.close()
            raise
