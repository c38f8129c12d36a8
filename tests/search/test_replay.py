from collections.abc import Sequence
from types import ModuleType

import optuna
import pytest

from headtune.search import Ledger, ReplayBroker, Retraining, Wanted
from headtune.search.draft import Draft
from headtune.search.seeds import trial_seed
from headtune.trial import Outcome, Signal, TrialRecord, TrialResult


def requests(kit: ModuleType, repeats: int = 2) -> list[Retraining]:
    plans = {"": kit.plan_of(2, 2, 2, 2), "present": kit.plan_of(8, 8, 8, 8)}
    return [
        Retraining(plan=plan, params={"lr": 0.01}, repeat=repeat, label=label)
        for label, plan in plans.items()
        for repeat in range(1, repeats + 1)
    ]


def broker(kit: ModuleType, ledger: Ledger, repeats: int = 2, **changes: object) -> ReplayBroker:
    return ReplayBroker(ledger, lambda _: Wanted(needed=requests(kit, repeats)), **({"seed": 7, "epochs": 4} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("slots", [1, 3])
def test_every_training_is_done_once_beside_the_search(kit: ModuleType, ledger: Ledger, url: str, slots: int) -> None:
    problem = kit.Problem()
    assert kit.drive(broker(kit, ledger, concurrent=slots), problem, slots=slots) == 4
    records = ledger.verify_trials()
    assert [(record.label, record.repeat) for record in records] == [("", 1), ("", 2), ("present", 1), ("present", 2)]
    assert [record.seed for record in records] == [trial_seed(7, 1), trial_seed(7, 2)] * 2
    assert {(record.kind, record.outcome) for record in records} == {("verify", Outcome.OK)}
    assert {record.params["lr"] for record in records} == {0.01}
    assert ledger.trials() == ()
    study = optuna.load_study(study_name="study (verify)", storage=url)
    assert study.metric_names == ["val_accuracy"]
    assert [trial.values for trial in study.trials] == [[record.metrics["val_accuracy"]] for record in records]
    assert len({request.key for request in problem.started}) == 4


def test_what_is_there_is_not_done_again_and_new_repeats_are(kit: ModuleType, url: str) -> None:
    for repeats, begun in ((2, 4), (2, 0), (3, 2)):
        with kit.open_ledger(url) as ledger:
            listener = kit.Listener()
            replay = broker(kit, ledger, repeats, observer=listener)
            assert kit.drive(replay, kit.Problem()) == begun
            assert listener.plans == [(2 * repeats, 2 * repeats - begun)]
    assert sorted((r.label, r.repeat) for r in Ledger.read(url, "study").verify_trials()) == [
        (label, repeat) for label in ("", "present") for repeat in (1, 2, 3)
    ]


def test_an_interrupted_training_comes_first_again(kit: ModuleType, url: str) -> None:
    with kit.open_ledger(url) as ledger:
        replay = broker(kit, ledger, concurrent=2)
        replay.propose()
        second = replay.propose()
        replay.finish(0, TrialResult(outcome=Outcome.CRASHED, message="no"))
    with kit.open_ledger(url) as ledger:
        replay = broker(kit, ledger)
        again = replay.propose()
        assert (again.key, again.repeat) == (second.key, 2)
        assert replay.propose() is Signal.WAIT
        kit.drive(replay, kit.Problem(), most=0)
        list(kit.Problem().steps(replay, again))
        kit.drive(replay, kit.Problem())
        assert [r.outcome for r in ledger.verify_trials()] == [Outcome.CRASHED, Outcome.OK, Outcome.OK, Outcome.OK]


def test_failed_trainings_are_tried_again_up_to_the_given_number(kit: ModuleType, ledger: Ledger) -> None:
    replay = broker(kit, ledger)
    for outcome in (Outcome.CRASHED, Outcome.OK, Outcome.DIVERGED, Outcome.STOPPED):
        request = replay.propose()
        replay.finish(
            request.number, TrialResult(outcome=outcome, message="", metrics={"val_accuracy": 1.0, "latency_ms": 1.0})
        )
    keys = [Draft.of(record).key for record in ledger.verify_trials()]
    assert replay.propose() is broker(kit, ledger).propose() is Signal.DONE
    again = kit.Problem()
    assert kit.drive(broker(kit, ledger, again=2), again) == 2
    assert [request.key for request in again.started] == [keys[0], keys[2]]
    assert broker(kit, ledger, again=2).propose() is Signal.DONE  # they ended well
    assert kit.drive(broker(kit, ledger, again=3), kit.Problem()) == 1


def test_a_training_left_over_from_another_verification_is_not_done(kit: ModuleType, ledger: Ledger) -> None:
    broker(kit, ledger).propose()
    only = [Retraining(plan=kit.plan_of(1, 1, 1, 1), repeat=1)]
    assert kit.drive(ReplayBroker(ledger, lambda _: Wanted(needed=only), seed=0, epochs=4), kit.Problem()) == 1
    assert [record.plan for record in ledger.verify_trials()] == [kit.plan_of(1, 1, 1, 1)]


def test_nothing_is_stopped_but_what_diverged(kit: ModuleType, ledger: Ledger) -> None:
    replay = broker(kit, ledger)
    request = replay.propose()
    assert replay.report(request.number, 1, {"val_accuracy": -99.0}) is False
    assert replay.report(request.number, 2, {"val_accuracy": float("nan")}) is True
    replay.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
    assert [record.outcome for record in ledger.verify_trials()] == [Outcome.DIVERGED]
    assert replay.report(request.number, 3, {"val_accuracy": 1.0}) is True


def test_a_lost_worker_is_retried_twice(kit: ModuleType, ledger: Ledger) -> None:
    replay = broker(kit, ledger)
    keys = []
    for _ in range(3):
        request = replay.propose()
        keys.append(request.key)
        replay.lost(request.number, "killed")
    assert len(set(keys)) == 1
    kit.drive(replay, kit.Problem())
    assert [record.outcome for record in ledger.verify_trials()] == [Outcome.CRASHED] + [Outcome.OK] * 3


def test_test_scores_are_kept(kit: ModuleType, ledger: Ledger) -> None:
    replay = broker(kit, ledger)
    result = TrialResult(
        outcome=Outcome.OK, message="", metrics={"val_accuracy": 0.5}, test_metrics={"test_accuracy": 0.4}
    )
    replay.finish(replay.propose().number, result)
    assert ledger.verify_trials()[0].test_metrics == {"test_accuracy": 0.4}


def test_the_same_training_asked_for_twice_is_done_once(kit: ModuleType, ledger: Ledger) -> None:
    twice = [*requests(kit), *requests(kit)]
    assert kit.drive(ReplayBroker(ledger, lambda _: Wanted(needed=twice), seed=0, epochs=4), kit.Problem()) == 4


def test_what_is_wanted_follows_from_what_ended(kit: ModuleType, ledger: Ledger) -> None:
    first, *_, last = requests(kit)
    listener = kit.Listener()

    def decide(trainings: Sequence[TrialRecord]) -> Wanted:
        return Wanted(needed=[first, last] if trainings else [first])

    replay = ReplayBroker(ledger, decide, seed=7, epochs=4, observer=listener)
    assert kit.drive(replay, kit.Problem()) == 2
    assert [record.repeat for record in ledger.verify_trials()] == [first.repeat, last.repeat]
    assert listener.plans == [(1, 0), (2, 0)]


def test_slots_that_would_wait_for_the_last_needed_training_go_ahead(kit: ModuleType, ledger: Ledger) -> None:
    first, second, third, _ = requests(kit)

    def decide(trainings: Sequence[TrialRecord]) -> Wanted:
        return Wanted(needed=[first], ahead=[second, third])

    replay = ReplayBroker(ledger, decide, seed=7, epochs=4, concurrent=2)
    needed, ahead = replay.propose(), replay.propose()
    assert (needed.repeat, ahead.repeat) == (first.repeat, second.repeat)
    assert replay.propose() is Signal.WAIT
    result = TrialResult(outcome=Outcome.OK, message="", metrics={"val_accuracy": 0.5})
    replay.finish(needed.number, result)
    assert replay.propose() is Signal.WAIT  # nothing is needed any more, so nothing goes ahead
    replay.finish(ahead.number, result)
    assert replay.propose() is Signal.DONE
