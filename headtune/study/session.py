"""A study in Python: run it whole, or ask and tell inside an existing loop."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

import headtune.rules as rules
from headtune.errors import InputError, SpecError, TaskError
from headtune.execute import InlineExecutor
from headtune.heads import Constraint, HeadDimConstraint, SpaceOptions
from headtune.pareto import Objective, ParetoFront
from headtune.study.asking import AskedTrial, Asking
from headtune.study.checking import check
from headtune.study.finalists import front_of
from headtune.study.narrator import Narrator
from headtune.study.profiling import Profile, profile
from headtune.study.reading import read
from headtune.study.record import StudyRecord
from headtune.study.searching import search
from headtune.study.spec import Evaluator, ExecutorName, Resources, SearchOptions, StudySpec, VerifyOptions
from headtune.timing import LatencyProtocol
from headtune.trial import (
    Observer,
    Outcome,
    Param,
    Signal,
    Task,
    TaskObject,
    TrialRecord,
    TrialResult,
    Weights,
)
from headtune.trial.metrics import told_metrics


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
        evaluator: Evaluator = "train",
        resources: Resources | None = None,
        name: str = "study",
        storage: str = "sqlite:///headtune.db",
        output: Path | str | None = None,
        seed: int = 0,
    ) -> None:
        """Describe the study; nothing runs and nothing is opened yet.

        Args:
            task, space: the problem, and which counts may be tried.
            weights: ``fresh`` trains what ``task.model`` returns with each plan; ``keep`` prunes it, as it is trained.
            objectives: one or more that the task reports, then ``latency_ms``, ``parameters``, ``peak_memory_mb``.
            constraints: on head_dim, or limits of what is measured.
            params: extra hyper-parameters, searched beside the counts.
            latency: how to time.
            epochs, stop_early: what ``run.epochs`` says; whether trials may be left unfinished.
            evaluator: ``supernet`` trains all plans at once on shared weights, and only the best of them by themselves.
            resources: what one trial gets.
            name, storage: the study's name in the storage, and an Optuna storage URL.
            output: folder for models and checkpoints; ``None`` keeps neither.
            seed: of everything.

        Raises:
            SpecError: lists everything that has no meaning or contradicts something else.
        """
        every = constraints if isinstance(constraints, Sequence) else (constraints,)
        head_dims = [one for one in every if isinstance(one, HeadDimConstraint)]
        spec = partial(
            StudySpec,
            name=name,
            task=TaskObject(task),
            space=space,
            weights=weights,
            objectives=tuple(objectives) if isinstance(objectives, Sequence) else objectives,
            limits=tuple(one for one in every if not isinstance(one, HeadDimConstraint)),
            params={} if params is None else params,
            latency=LatencyProtocol() if latency is None else latency,
            resources=Resources() if resources is None else resources,
            storage=storage,
            output=Path(output) if isinstance(output, str) else output,
            seed=seed,
        )
        options = partial(SearchOptions, epochs=epochs, stop_early=stop_early, evaluator=evaluator)
        narrowed = partial(_narrowed, space, head_dims)
        _together(partial(_check_task, task), spec, options, narrowed)
        self._spec = replace(spec(), space=narrowed(), search=options())
        self._asking: Asking | None = None

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

        Raises:
            SpecError: lists every argument that has no meaning.
        """
        options = partial(replace, self._spec.search, trials=trials, timeout_s=timeout_s)
        judged = VerifyOptions() if verify is None else verify
        spec = partial(replace, self._spec, verify=judged, executor=executor)
        _together(options, spec)
        self.close()
        return search(replace(spec(), search=options()), observer or Narrator())

    def profile(self, observer: Observer | None = None) -> Profile:
        """What latency is achievable and what moves it, measured in this process without training anything.

        The named plans, what a head costs at each site, what a pass is made of and bound by;
        :func:`headtune.study.profile_findings` puts it into words.

        Args:
            observer: hears what happens; lines on stderr if ``None``.

        Raises:
            InputError: the task or the space is wrong, as the check of a run finds it.
            MeasurementError: the model cannot be measured.
        """
        told = observer or Narrator()
        return profile(self._spec, check(self._spec, told), InlineExecutor(), told, details=True)

    def ask(self) -> AskedTrial:
        """The next trial to train. The first call takes the study's lease and profiles in this process.

        Raises:
            InputError: nothing can be asked until a running trial is told, or the space is exhausted.
        """
        if self._asking is None:
            self._asking = Asking.begin(self._spec)
        asking = self._asking
        asking.keep("ask")
        request = asking.broker.propose()
        if request is Signal.WAIT:
            raise InputError(
                "nothing can be asked now: the baselines come first, and of equal models the first is built and timed "
                "before the next is asked for; build or tell the trials you have"
            )
        if request is Signal.DONE:
            raise InputError(f"nothing is left to ask: {asking.broker.ending}")
        return asking.opened(request)

    def tell(self, trial: AskedTrial, metrics: Mapping[str, float]) -> TrialRecord:
        """How *trial* ended: its final metrics, the objectives' among them.

        Raises:
            InputError: it is no trial that this study asked for and that is still open, or it was not built where
                something is measured; the trial stays open.
            TaskError: a metric that is an objective is missing, or one is no number; the trial stays open.
        """
        if not isinstance(trial, AskedTrial):
            raise InputError(f"tell: trial must be one that ask() returned{rules.came(trial)}")
        asking = trial.asking
        progress = asking.progress("tell", trial.number)
        if asking is not self._asking:
            raise InputError(f"tell: trial {trial.number} was asked by another study; tell it there")
        if asking.measured and not progress.built:
            raise InputError(
                f"tell: trial {trial.number} was not built, which measures {', '.join(asking.measured)}; "
                "call its build() first"
            )
        values = told_metrics(metrics)
        missing = [goal.metric for goal in self._spec.objectives if not goal.measured and goal.metric not in values]
        if missing:
            raise TaskError(f"tell: {', '.join(missing)} is missing; got {', '.join(values) or 'nothing'}")
        wild = [name for name, value in values.items() if not math.isfinite(value)]
        outcome = Outcome.DIVERGED if wild else Outcome.OK
        asking.finish(
            trial.number, TrialResult(outcome=outcome, message=outcome.sentence, metrics={} if wild else values)
        )
        return next(record for record in asking.ledger.trials() if record.number == trial.number)

    def __repr__(self) -> str:
        return f"Study('{self._spec.name}')"

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
        """Give the study back; trials that were asked and not told are asked again next time.

        Raises:
            StorageError: the storage's file was removed or replaced.
        """
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()

    def __enter__(self) -> "Study":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _together(*makings: Callable[[], object]) -> None:
    """Try every making, so that the problems of all of them are told at once."""
    problems: list[str] = []
    for make in makings:
        try:
            make()
        except InputError as error:
            problems += error.problems
    if problems:
        raise SpecError(*problems)


def _check_task(task: Task) -> None:
    problems = rules.broken({"task": (task, rules.a(Task, "a headtune.Task"))})
    if problems:
        raise TaskError(*problems)
    TaskObject(task).load()


def _narrowed(space: SpaceOptions, head_dims: Sequence[HeadDimConstraint]) -> SpaceOptions:
    """The space with the wanted head dimensions."""
    if not head_dims or not isinstance(space, SpaceOptions):
        return space
    if len(head_dims) > 1 or space.head_dim is not None:
        raise SpecError("constraints: head_dim is constrained twice; keep one HeadDimConstraint")
    return replace(space, head_dim=head_dims[0])
