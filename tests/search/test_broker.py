"""The broker's promises, under every sampler, on a problem whose answers are known."""

import math
import random
from collections import Counter
from types import ModuleType

import optuna
import pytest

from headtune.errors import SpaceError
from headtune.pareto import Objective, reference_point
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.search import broker as module
from headtune.search.seeds import trial_seed
from headtune.trial import FloatParam, Outcome, Param, Signal, TrialRequest, TrialResult

SAMPLERS = [
    ("random", 1),
    ("random", 3),
    ("tpe", 1),
    ("tpe", 3),
    ("nsga2", 3),
    ("grid", 3),
    ("gp", 3),
    ("ehvi", 1),
    ("ehvi", 3),
    ("auto", 1),
]


def rules(**changes: object) -> SearchRules:
    return SearchRules(**({"sampler": "random", "trials": 12, "epochs": 4, "limits": ("latency_ms",)} | changes))  # type: ignore[arg-type]


def named(kit: ModuleType) -> dict[str, object]:
    return {"present": kit.plan_of(8, 8, 8, 8), "rule": kit.plan_of(1, 1, 1, 1), "largest": kit.plan_of(8, 8, 8, 8)}


def outcomes(ledger: Ledger) -> Counter[str]:
    return Counter(str(record.outcome) for record in ledger.trials())


@pytest.mark.parametrize(("sampler", "slots"), SAMPLERS)
def test_a_search_trains_exactly_what_was_asked(
    kit: ModuleType, ledger: Ledger, url: str, sampler: str, slots: int
) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(sampler=sampler, concurrent=slots), baselines=named(kit))
    kit.drive(broker, kit.Problem(limit=7.0), slots=slots)
    records = ledger.trials()
    assert sum(record.outcome.trained for record in records) == 12
    assert len({record.plan for record in records}) == len(records), "no plan twice"
    assert [record.label for record in records if record.kind == "baseline"] == ["present", "rule"]
    for record in records:
        slow = kit.latency(record.plan) > 7.0
        assert record.feasible is not slow
        assert (record.outcome is Outcome.INFEASIBLE) == (slow and record.kind == "search")
        assert record.seed == trial_seed(0, 0)
        assert record.seconds["ask"] >= 0
    trials = optuna.load_study(study_name="study", storage=url).trials
    assert {trial.state.name for trial in trials} <= {"COMPLETE", "PRUNED", "FAIL"}
    assert broker.ending == ""
    assert broker.propose() is Signal.DONE


@pytest.mark.parametrize("sampler", ["random", "tpe", "gp", "ehvi"])
def test_one_worker_and_one_seed_give_one_study(kit: ModuleType, tmp_path: object, sampler: str) -> None:
    def study(name: str, seed: int, stops: tuple[int, ...] = ()) -> list[object]:
        url = f"sqlite:///{tmp_path}/{name}.db"
        for most in (*stops, 1000):
            with kit.open_ledger(url) as ledger:
                chosen = rules(sampler=sampler, seed=seed, trials=10)
                broker = SearchBroker(ledger, kit.space_of(), chosen, baselines=named(kit))
                kit.drive(broker, kit.Problem(limit=7.0), most=most)
                records = ledger.trials()
        return [(record.plan, record.outcome, record.curve) for record in records]

    through = study("a", 0)
    assert study("b", 0, stops=(1, 3, 8)) == through, "restarts replay nothing and change nothing"
    assert sampler in ("gp", "ehvi") or study("c", 1) != through


def test_baselines_come_first_in_full_and_freeze_the_reference_point(kit: ModuleType, ledger: Ledger) -> None:
    """The present plan is infeasible, the second baseline outside the space: both are trained to the end."""
    baselines = {"present": kit.plan_of(8, 8, 8, 8), "rule": kit.plan_of(3, 3, 3, 3), "small": kit.plan_of(1, 1, 1, 1)}
    listener = kit.Listener()
    broker = SearchBroker(
        ledger, kit.space_of(), rules(sampler="tpe", trials=8, concurrent=2), baselines=baselines, observer=listener
    )
    first, second = broker.propose(), broker.propose()
    assert isinstance(first, TrialRequest)
    assert isinstance(second, TrialRequest)
    assert [first.label, second.label] == ["present", "rule"]
    assert broker.propose() is Signal.WAIT, "two run at once"
    problem = kit.Problem(limit=5.0, curve=lambda request, step: kit.accuracy(request.plan))
    list(problem.steps(broker, first))
    third = broker.propose()
    assert third.label == "small"
    list(problem.steps(broker, third))
    assert broker.propose() is Signal.WAIT, "the sampler waits for the last baseline"
    assert ledger.recall("reference_point") is None
    list(problem.steps(broker, second))
    assert listener.notes == []
    fourth = broker.propose()
    assert fourth.kind == "search"
    values = [[kit.accuracy(plan), kit.latency(plan)] for plan in baselines.values()]
    assert ledger.recall("reference_point") == list(reference_point(values, kit.OBJECTIVES))
    assert listener.notes == ["sampler tpe: as asked"]
    assert listener.plans == [(8, 0)]
    present, rule, _ = ledger.trials()[:3]
    assert (present.outcome, present.feasible) == (Outcome.OK, False)
    assert (rule.outcome, rule.feasible) == (Outcome.OK, True)
    assert [record.number for record in ledger.trials() if not record.in_space] == [rule.number]


def test_the_reference_point_stays_frozen(kit: ModuleType, url: str) -> None:
    points = []
    for trials, baselines in ((4, named(kit)), (6, {**named(kit), "mixed": kit.plan_of(1, 1, 3, 3)})):
        with kit.open_ledger(url) as ledger:
            kit.drive(SearchBroker(ledger, kit.space_of(), rules(trials=trials), baselines=baselines), kit.Problem())
            points.append(ledger.recall("reference_point"))
            assert ("mixed" in {record.label for record in ledger.trials()}) == (trials == 6)
    assert points[0] == points[1]


def test_fewer_trials_than_baselines_train_the_first(kit: ModuleType, ledger: Ledger) -> None:
    listener = kit.Listener()
    baselines = {**named(kit), "mixed": kit.plan_of(1, 1, 4, 4)}
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=2), baselines=baselines, observer=listener)
    kit.drive(broker, kit.Problem())
    assert [record.label for record in ledger.trials()] == ["present", "rule"]
    assert listener.notes == ["2 trials are fewer than the baselines; left out: mixed"]


def test_without_any_good_baseline_the_search_goes_on(kit: ModuleType, ledger: Ledger) -> None:
    problem = kit.Problem(
        fail=lambda request: TrialResult(outcome=Outcome.CRASHED, message="no") if request.label else None
    )
    kit.drive(SearchBroker(ledger, kit.space_of(), rules(trials=3), baselines=named(kit)), problem)
    assert outcomes(ledger) == {"crashed": 2, "ok": 3}
    assert ledger.recall("reference_point") is None


def test_a_small_space_is_tried_whole_and_ends_the_search(kit: ModuleType, ledger: Ledger) -> None:
    listener = kit.Listener()
    broker = SearchBroker(
        ledger, kit.space_of([1, 8]), rules(sampler="auto", trials=40), baselines=named(kit), observer=listener
    )
    assert kit.drive(broker, kit.Problem()) == 16
    assert len({record.plan for record in ledger.trials()}) == 16
    assert broker.ending == "every combination in the space was tried"
    assert listener.notes == [
        "sampler grid: 14 combinations are untried and 38 trials left, so every one is tried",
        "the search ends here: every combination in the space was tried",
    ]


def test_an_exhausted_space_waits_for_what_runs(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of([8]), rules(trials=5, concurrent=4), baselines={})
    request = broker.propose()
    assert broker.propose() is Signal.WAIT
    broker.lost(request.number, "killed")
    again = broker.propose()
    assert (again.key, again.number) == (request.key, 1)
    broker.finish(again.number, TrialResult(outcome=Outcome.CRASHED, message=""))
    assert broker.propose() is Signal.DONE


def test_a_requeued_trial_goes_before_baselines_and_sampler(kit: ModuleType, url: str) -> None:
    with kit.open_ledger(url) as ledger:
        broker = SearchBroker(ledger, kit.space_of(), rules(trials=6, concurrent=9), baselines=named(kit))
        before = [broker.propose() for _ in range(2)]
    with kit.open_ledger(url) as ledger:
        broker = SearchBroker(ledger, kit.space_of(), rules(trials=6, concurrent=9), baselines=named(kit))
        after = [broker.propose() for _ in range(2)]
        assert [(r.key, r.label, r.seed) for r in after] == [(r.key, r.label, r.seed) for r in before]
        assert [r.number for r in after] == [2, 3]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Outcome.CRASHED, "FAIL"), (Outcome.OUT_OF_MEMORY, "FAIL"), (Outcome.DIVERGED, "FAIL")],
)
def test_bad_trials_are_kept_with_their_reason_and_replaced(
    kit: ModuleType, ledger: Ledger, url: str, outcome: Outcome, state: str
) -> None:
    def fail(request: TrialRequest) -> TrialResult | None:
        odd = kit.heads_of(request.plan)[0] in (2, 4)
        return TrialResult(outcome=outcome, message="as the test wants") if odd else None

    kit.drive(SearchBroker(ledger, kit.space_of(), rules(trials=10, limits=()), baselines={}), kit.Problem(fail=fail))
    records = ledger.trials()
    bad = [record for record in records if record.outcome is outcome]
    assert len(bad) == len(records) - 10 > 0
    assert {record.message for record in bad} == {"as the test wants"}
    study = optuna.load_study(study_name="study", storage=url)
    for record in bad:
        trial = study.trials[record.number]
        assert (trial.state.name, trial.user_attrs["outcome"]) == (state, outcome.value)
        assert trial.user_attrs["heads"] == record.plan.label


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_end_one_trial_never_the_study(kit: ModuleType, ledger: Ledger, wild: float) -> None:
    def curve(request: TrialRequest, step: int) -> float:
        return wild if step == 3 and kit.heads_of(request.plan)[0] == 1 else 0.1 * step

    kit.drive(SearchBroker(ledger, kit.space_of(), rules(trials=8), baselines=named(kit)), kit.Problem(curve=curve))
    records = ledger.trials()
    bad = [record for record in records if record.outcome is Outcome.DIVERGED]
    assert len(bad) == len(records) - 8 > 0
    for record in bad:
        assert record.message == f"reported a value that is not finite: val_accuracy = {wild}"
        assert [step for step, _ in record.curve] == [1, 2]


def test_a_study_in_which_everything_fails_gives_up(kit: ModuleType, ledger: Ledger) -> None:
    listener = kit.Listener()
    problem = kit.Problem(fail=lambda request: TrialResult(outcome=Outcome.CRASHED, message="no"))
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=40), baselines=named(kit), observer=listener)
    assert kit.drive(broker, problem) == 10
    assert listener.notes[-1] == "the search ends here: the first 10 trials all failed, so no other is started"
    assert broker.ending == "the first 10 trials all failed, so no other is started"


def test_a_study_in_which_all_is_infeasible_gives_up(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=2), baselines={})
    assert kit.drive(broker, kit.Problem(limit=1.0)) == 50
    assert broker.ending == (
        "50 trials were started and 0 of 2 trained (50 infeasible, 0 failed); "
        "give the constraints or the space more room"
    )


def test_slow_and_bad_trials_are_stopped_good_and_fast_ones_never(kit: ModuleType, ledger: Ledger, url: str) -> None:
    kit.drive(
        SearchBroker(ledger, kit.space_of(), rules(trials=24, limits=()), baselines=named(kit)),
        kit.Problem(curve=lambda request, step: -kit.latency(request.plan) + 0.01 * step),
    )
    records = ledger.trials()
    stopped = [record for record in records if record.outcome is Outcome.STOPPED]
    assert stopped
    assert {len(record.curve) for record in stopped} <= {1, 2}, "only at rungs"
    assert all(record.kind == "search" for record in stopped)
    for record in stopped:
        # Quality falls with latency here, so a stopped trial has at least three better among those not slower.
        better = [r for r in records if r.number < record.number and kit.latency(r.plan) <= kit.latency(record.plan)]
        assert len(better) >= 3
        trial = optuna.load_study(study_name="study", storage=url).trials[record.number]
        assert (trial.state.name, trial.values) == ("PRUNED", None)
        assert trial.intermediate_values == dict(record.curve)
    fastest = min((record for record in records), key=lambda record: kit.latency(record.plan))
    assert fastest.outcome is Outcome.OK


def test_nothing_is_stopped_where_it_is_not_wanted(kit: ModuleType, ledger: Ledger) -> None:
    problem = kit.Problem(curve=lambda request, step: -kit.latency(request.plan) + 0.01 * step)
    kit.drive(
        SearchBroker(ledger, kit.space_of(), rules(trials=15, limits=(), stop_early=False), baselines={}), problem
    )
    assert outcomes(ledger) == {"ok": 15}


def test_stopping_by_one_of_several_qualities_is_refused_aloud(kit: ModuleType, url: str) -> None:
    goals = (*kit.OBJECTIVES, Objective(metric="val_f1", direction="maximize"))
    listener = kit.Listener()
    with Ledger.open(url, "two", objectives=goals, fingerprint={}, manifest={}) as ledger:
        SearchBroker(ledger, kit.space_of(), rules(), baselines={}, observer=listener)
        SearchBroker(ledger, kit.space_of(), rules(stop_early=False), baselines={}, observer=listener)
    assert listener.notes == ["no trial is stopped early: a learning curve shows one quality objective, not several"]


def test_a_lost_worker_is_retried_twice_then_the_plan_is_given_up(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=3), baselines={"present": kit.plan_of(8, 8, 8, 8)})
    keys = []
    for _ in range(3):
        request = broker.propose()
        keys.append(request.key)
        broker.lost(request.number, "its process died")
    assert len(set(keys)) == 1
    kit.drive(broker, kit.Problem())
    assert outcomes(ledger) == {"crashed": 1, "ok": 3}
    assert ledger.trials()[0].message == "lost its worker 3 times: its process died"


def test_late_results_change_nothing(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=2), baselines={})
    problem = kit.Problem()
    request = broker.propose()
    list(problem.steps(broker, request))
    before = ledger.trials()
    assert broker.report(request.number, 9, {"val_accuracy": 0.0}) is True
    broker.measured(request.number, problem.measure(request))
    broker.finish(request.number, TrialResult(outcome=Outcome.CRASHED, message="late"))
    broker.lost(request.number, "late")
    assert ledger.trials() == before


def test_the_timeout_spans_restarts(kit: ModuleType, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        perf_counter = monotonic

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)

    def curve(request: TrialRequest, step: int) -> float:
        clock.now += 1.0
        return 0.1

    begun = 0
    for _ in range(3):
        clock.now += 1000.0
        with kit.open_ledger(url) as ledger:
            broker = SearchBroker(ledger, kit.space_of(), rules(trials=40, timeout_s=50.0), baselines={})
            begun += kit.drive(broker, kit.Problem(curve=curve), most=4)
            spent = ledger.recall("elapsed_s")
    # A trial takes 5 s: four reports and the final value. Two starts of four, then two more fill 50 s.
    assert (begun, spent) == (10, 50.0)
    assert broker.ending == "the timeout of 50 s is over with 10 of 40 trials trained"


def test_more_trials_later_continue_the_study(kit: ModuleType, url: str) -> None:
    for trials, begun in ((5, 5), (5, 0), (9, 4)):
        with kit.open_ledger(url) as ledger:
            listener = kit.Listener()
            broker = SearchBroker(ledger, kit.space_of(), rules(trials=trials), baselines=named(kit), observer=listener)
            assert listener.plans == [(trials, trials - begun)]
            assert kit.drive(broker, kit.Problem()) == begun


def test_params_are_searched_beside_heads_and_baselines_take_the_default(kit: ModuleType, ledger: Ledger) -> None:
    params = {"lr": FloatParam(low=1e-3, high=1e-1, log=True)}
    broker = SearchBroker(ledger, kit.space_of(), rules(sampler="tpe", params=params, trials=15), baselines=named(kit))
    kit.drive(broker, kit.Problem())
    records = ledger.trials()
    assert [record.params["lr"] for record in records[:2]] == [pytest.approx(0.01, rel=1e-12)] * 2
    searched = [record.params["lr"] for record in records[2:]]
    assert len(set(searched)) == 13
    assert all(1e-3 <= lr <= 1e-1 for lr in searched)


def test_a_grid_over_a_continuous_param_is_refused(kit: ModuleType, ledger: Ledger) -> None:
    params = {"lr": FloatParam(low=1e-3, high=1e-1)}
    with pytest.raises(SpaceError, match="sampler: grid cannot list lr"):
        SearchBroker(ledger, kit.space_of(), rules(sampler="grid", params=params), baselines={})


def test_the_observer_hears_every_change(kit: ModuleType, ledger: Ledger) -> None:
    listener = kit.Listener()
    kit.drive(SearchBroker(ledger, kit.space_of(), rules(trials=1), baselines={}, observer=listener), kit.Problem())
    assert [(record.outcome, len(record.curve), len(record.metrics)) for record in listener.records] == [
        (None, 0, 0),
        (None, 0, 1),
        *((None, step, 1) for step in range(1, 5)),
        (Outcome.OK, 4, 2),
    ]
    assert listener.records[-1] == ledger.trials()[0]


UNFIT = TrialResult(outcome=Outcome.CRASHED, message="never reported val_accuracy", unfit=True)


def test_a_task_that_does_not_fit_ends_the_search_with_its_first_training(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(concurrent=2), baselines=named(kit))
    first, second = broker.propose(), broker.propose()
    assert isinstance(first, TrialRequest)
    assert isinstance(second, TrialRequest)
    assert broker.misfit == ""
    assert not broker.report(second.number, 1, {"loss": 1.0})
    broker.finish(first.number, UNFIT)
    assert broker.misfit == "never reported val_accuracy"
    assert broker.propose() is Signal.DONE
    assert broker.report(second.number, 2, {"loss": 1.0}), "what runs is stopped"


ELSEWHERE = TrialResult(outcome=Outcome.CRASHED, message="timed on another device", misplaced=True)


def test_a_trial_on_another_device_ends_the_search_and_is_started_again_by_the_next(
    kit: ModuleType, ledger: Ledger
) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(concurrent=2, limits=()), baselines=named(kit))
    first, second = broker.propose(), broker.propose()
    assert isinstance(first, TrialRequest)
    assert isinstance(second, TrialRequest)
    assert broker.misplaced == ""
    broker.finish(first.number, ELSEWHERE)
    assert broker.misplaced == "timed on another device"
    assert broker.propose() is Signal.DONE
    broker.measured(second.number, kit.Problem().measure(second))
    broker.finish(second.number, TrialResult(outcome=Outcome.OK, message="", metrics={"val_accuracy": 0.5}))
    assert [trial.plan for trial in ledger.trials()] == [second.plan], "what says nothing of its plan is not kept"
    again = SearchBroker(ledger, kit.space_of(), rules(limits=()), baselines=named(kit)).propose()
    assert isinstance(again, TrialRequest)
    assert (again.plan, again.kind, again.label) == (first.plan, first.kind, first.label)


def test_a_task_that_fits_some_plans_goes_on(kit: ModuleType, ledger: Ledger) -> None:
    failing = kit.plan_of(1, 1, 1, 1)
    problem = kit.Problem(fail=lambda request: UNFIT if request.plan == failing else None)
    broker = SearchBroker(ledger, kit.space_of(), rules(limits=()), baselines=named(kit))
    kit.drive(broker, problem)
    assert broker.misfit == ""
    assert outcomes(ledger)["crashed"] == 1


def test_one_that_is_trained_beside_the_first_lets_the_search_go_on(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(concurrent=2, limits=()), baselines=named(kit))
    first, second = broker.propose(), broker.propose()
    assert isinstance(first, TrialRequest)
    assert isinstance(second, TrialRequest)
    broker.finish(first.number, UNFIT)
    broker.measured(second.number, kit.Problem().measure(second))
    broker.finish(second.number, TrialResult(outcome=Outcome.OK, message="", metrics={"val_accuracy": 0.5}))
    assert broker.misfit == ""
    assert isinstance(broker.propose(), TrialRequest)


def test_a_large_study_keeps_no_row_for_each_choice_and_says_so(
    kit: ModuleType, ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHARTED", 4 * 12 - 1)
    listener = kit.Listener()
    broker = SearchBroker(ledger, kit.space_of(), rules(), baselines=named(kit), observer=listener)
    kit.drive(broker, kit.Problem())
    assert sum("more than a dashboard's charts can show" in note for note in listener.notes) == 1
    trials = optuna.load_study(study_name="study", storage=url).trials
    assert [trial.params for trial in trials] == [{}] * len(trials)
    assert [trial.user_attrs["heads"] for trial in trials] == [record.plan.label for record in ledger.trials()]


def test_a_small_study_keeps_each_choice_for_a_dashboard(kit: ModuleType, ledger: Ledger, url: str) -> None:
    listener = kit.Listener()
    kit.drive(
        SearchBroker(ledger, kit.space_of(), rules(), baselines=named(kit), observer=listener), kit.Problem(), most=3
    )
    assert not any("dashboard" in note for note in listener.notes)
    assert all(len(trial.params) == 4 for trial in optuna.load_study(study_name="study", storage=url).trials)


def test_finalists_are_judged_by_what_is_believed(kit: ModuleType, ledger: Ledger) -> None:
    """One lucky seed lifts one plan far above its neighbours: less is believed of it than it showed."""
    lucky = kit.plan_of(1, 1, 1, 1)
    broker = SearchBroker(
        ledger, kit.space_of(), rules(sampler="ehvi", trials=24, limits=(), stop_early=False), baselines=named(kit)
    )
    luck = 0.2
    kit.drive(
        broker, kit.Problem(curve=lambda request, step: kit.accuracy(request.plan) + luck * (request.plan == lucky))
    )
    (record,) = [one for one in ledger.trials() if one.plan == lucky]
    assert kit.accuracy(lucky) < broker.believed[record.number] < kit.accuracy(lucky) + luck
    assert broker.believed.keys() == {one.number for one in ledger.trials() if one.outcome is Outcome.OK}


@pytest.mark.parametrize("params", [{}, {"lr": FloatParam(low=1e-3, high=1.0, log=True)}], ids=["plans", "lr-too"])
@pytest.mark.parametrize("sampler", ["ehvi", "random"])
def test_only_of_plans_that_were_chosen_for_their_ends_none_is_stopped(
    kit: ModuleType, ledger: Ledger, sampler: str, params: dict[str, Param]
) -> None:
    def curve(request: TrialRequest, step: int) -> float:  # one plan in six does not learn
        return float(kit.accuracy(request.plan) * step / 9 - (random.Random(request.plan.label).random() < 1 / 6))

    chosen = rules(sampler=sampler, trials=24, epochs=9, limits=(), concurrent=2, params=params)
    broker = SearchBroker(ledger, kit.space_of([1, 2, 4, 8]), chosen, baselines=named(kit))
    kit.drive(broker, kit.Problem(curve=curve, epochs=9), slots=2)
    stops = sampler == "random" or bool(params)
    assert {one.outcome for one in ledger.trials()} == ({Outcome.OK, Outcome.STOPPED} if stops else {Outcome.OK})


def test_a_task_that_stops_itself_has_not_trained_to_its_end(kit: ModuleType, ledger: Ledger) -> None:
    broker = SearchBroker(ledger, kit.space_of(), rules(trials=1, limits=()), baselines={})
    request = broker.propose()
    assert isinstance(request, TrialRequest)
    broker.report(request.number, 1, {"val_accuracy": 0.5})
    broker.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
    (record,) = ledger.trials()
    assert record.outcome is Outcome.STOPPED
    assert "ended itself" in record.message
