"""One driver's hold on a study: what it remembers, and what it refuses."""

from collections.abc import Callable
from contextlib import closing

import pytest

from headtune.errors import Infeasible, InputError, StudyBusyError, StudyChangedError
from headtune.execute import InlineExecutor
from headtune.execute.inline import _Direct
from headtune.execute.ray_tune import RayExecutor
from headtune.heads import HeadPlan, Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.study import Resources, StudySpec
from headtune.study.driver import broker_of, check_and_remember, executor_of, measuring_executor, open_ledger, prepare
from headtune.timing import LatencyProtocol
from headtune.trial import ChoiceParam, FloatParam, Measurement, Signal, Silent, TrialRequest
from headtune.trial.worker import run_trial

MakeSpec = Callable[..., StudySpec]
QUALITY = Objective(metric="quality", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
QUICK = LatencyProtocol(batch_size=2, max_seconds=0.05)


class Refusing(InlineExecutor):
    def call(self, *_: object) -> object:  # type: ignore[override]
        raise AssertionError("nothing is to be profiled")


def test_one_driver_holds_the_study_until_it_closes(make_spec: MakeSpec) -> None:
    spec = make_spec()
    with open_ledger(spec), pytest.raises(StudyBusyError):
        open_ledger(spec)
    open_ledger(spec).close()


@pytest.mark.slow
def test_who_runs_the_trials(make_spec: MakeSpec) -> None:
    assert isinstance(executor_of(make_spec(executor="inline"), Silent()), InlineExecutor)
    with closing(executor_of(make_spec(executor="ray", resources=Resources(concurrent=2)), Silent())) as executor:
        assert isinstance(executor, RayExecutor)


def test_what_is_only_measured_is_measured_where_trials_run(make_spec: MakeSpec) -> None:
    here = make_spec(executor="ray", resources=Resources(concurrent=2))
    assert isinstance(measuring_executor(here, Silent()), InlineExecutor)
    far = Resources(cluster="127.0.0.1:1")
    with pytest.raises(InputError, match=r"^resources.cluster: no Ray cluster at '127.0.0.1:1'"):
        measuring_executor(make_spec(executor="ray", resources=far), Silent())


def test_a_model_with_other_sites_than_the_study_began_with_is_refused(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec()
    with open_ledger(spec) as ledger:
        first = check_and_remember(spec, ledger, Silent())
        assert check_and_remember(spec, ledger, Silent()).sites == first.sites
        monkeypatch.setenv("TINY_LAYERS", "3")
        with pytest.raises(StudyChangedError) as caught:
            check_and_remember(spec, ledger, Silent())
        assert "attention sites are not those that study 'tiny' began with" in str(caught.value)
        assert ledger.recall("checked")["space_size"] == 25


def test_the_profile_is_taken_once_so_that_the_reference_stays(make_spec: MakeSpec) -> None:
    limit = Limit(metric="latency_ms", max_ratio=2.0, of="present")
    spec = make_spec(objectives=(QUALITY, LATENCY), limits=(limit,), latency=QUICK)
    with open_ledger(spec) as ledger:
        checked = check_and_remember(spec, ledger, Silent())
        first = prepare(spec, checked, ledger, InlineExecutor(), Silent())
        assert first.limits == ledger.recall("limits") == {"latency_ms": 2.0 * first.reference_ms["latency_ms"]}
        assert prepare(spec, checked, ledger, Refusing(), Silent()) == first


def test_a_limit_that_nothing_meets_is_infeasible(make_spec: MakeSpec) -> None:
    spec = make_spec(limits=(Limit(metric="parameters", max=10),))
    with open_ledger(spec) as ledger:
        checked = check_and_remember(spec, ledger, Silent())
        with pytest.raises(Infeasible, match="achievable is 4465"):
            prepare(spec, checked, ledger, InlineExecutor(), Silent())


@pytest.mark.parametrize(("objectives", "shared"), [((QUALITY, LATENCY), True), ((QUALITY,), False)])
def test_a_timing_serves_every_trial_whose_model_is_built_alike_also_after_a_restart(
    make_spec: MakeSpec, objectives: tuple[Objective, ...], shared: bool
) -> None:
    params = {"lr": FloatParam(low=0.01, high=0.1), "dropout": ChoiceParam(choices=(0.0,))}
    space = SpaceOptions(hold="width", heads=(2, 4), tie="uniform")
    spec = make_spec(objectives=objectives, params=params, latency=QUICK, space=space, trials=9, epochs=1)
    found: dict[HeadPlan, Measurement | None] = {}
    for _ in range(2):
        with open_ledger(spec) as ledger:
            checked = check_and_remember(spec, ledger, Silent())
            setup = prepare(spec, checked, ledger, InlineExecutor(), Silent())
            broker = broker_of(spec, checked, ledger, setup, 1, Silent())
            for _ in range(4):
                request = broker.propose()
                assert isinstance(request, TrialRequest)
                assert request.measurement == (found.get(request.plan) if shared else None)
                broker.finish(request.number, run_trial(setup, request, _Direct(broker, request.number)))
                record = ledger.trials()[-1]
                found.setdefault(record.plan, record.measurement)
    assert len(found) == 3  # the two of the space, and the rule of thumb


def test_a_trial_waits_for_the_timing_of_a_twin_that_runs(make_spec: MakeSpec) -> None:
    params = {"lr": FloatParam(low=0.01, high=0.1)}
    space = SpaceOptions(hold="width", heads=(2, 4))
    spec = make_spec(objectives=(QUALITY, LATENCY), params=params, latency=QUICK, space=space, trials=60, epochs=1)
    with open_ledger(spec) as ledger:
        checked = check_and_remember(spec, ledger, Silent())
        setup = prepare(spec, checked, ledger, InlineExecutor(), Silent())
        broker = broker_of(spec, checked, ledger, setup, 50, Silent())
        for _ in checked.baselines:
            request = broker.propose()
            assert isinstance(request, TrialRequest)
            broker.finish(request.number, run_trial(setup, request, _Direct(broker, request.number)))
        begun = list(iter(broker.propose, Signal.WAIT))
        new = [request for request in begun if isinstance(request, TrialRequest) and request.measurement is None]
        assert len({request.plan for request in new}) == len(new) >= 1
        assert len(begun) < 50  # there was room: it waits for a timing
        timed = ledger.trials()[0].measurement
        for request in new:
            broker.measured(request.number, timed)
        after = broker.propose()
        assert isinstance(after, TrialRequest)
        assert after.plan in {request.plan for request in new}
        assert after.measurement == timed
