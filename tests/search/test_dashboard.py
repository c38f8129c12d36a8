import json
import socket
import sys
import time
from collections.abc import Callable
from threading import Thread
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from headtune.errors import InputError, MissingExtraError, StorageError
from headtune.search import Ledger, SearchBroker, SearchRules, serve_dashboard
from headtune.trial import Outcome, TrialRequest, TrialResult


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def served(kit: ModuleType, url: str) -> Callable[[str], Any]:
    """The dashboard's answers about a study with a trial of every kind."""

    def fail(request: TrialRequest) -> TrialResult | None:
        crashes = kit.heads_of(request.plan)[3] == 4
        return TrialResult(outcome=Outcome.CRASHED, message="ValueError: no such head") if crashes else None

    problem = kit.Problem(limit=7.0, fail=fail, curve=lambda request, step: -kit.latency(request.plan) + 0.01 * step)
    with kit.open_ledger(url) as ledger:
        rules = SearchRules(sampler="random", trials=20, epochs=4, limits=("parameters", "latency_ms"))
        broker = SearchBroker(ledger, kit.space_of(), rules, baselines={"present": kit.plan_of(8, 8, 8, 8)})
        kit.drive(broker, problem)
    port = free_port()
    Thread(target=serve_dashboard, args=(url, "127.0.0.1", port), daemon=True).start()

    def get(path: str) -> Any:
        for _ in range(600):
            try:
                with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                    return json.loads(answer.read())
            except URLError as error:
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise
                time.sleep(0.1)
        raise AssertionError("the dashboard never answered")

    return get


def test_the_dashboard_shows_names_states_constraints_and_heads(
    kit: ModuleType, url: str, served: Callable[[str], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    (summary,) = served("/api/studies")["study_summaries"]
    assert (summary["study_name"], summary["directions"]) == ("study", ["maximize", "minimize"])
    shown = served(f"/api/studies/{summary['study_id']}")
    assert shown["objective_names"] == ["val_accuracy", "latency_ms"]
    records = Ledger.read(url, "study").trials()
    assert {record.outcome for record in records} == {
        Outcome.OK,
        Outcome.STOPPED,
        Outcome.INFEASIBLE,
        Outcome.CRASHED,
    }
    states = {
        Outcome.OK: "Complete",
        Outcome.STOPPED: "Pruned",
        Outcome.INFEASIBLE: "Pruned",
        Outcome.CRASHED: "Fail",
    }
    for trial, record in zip(shown["trials"], records, strict=True):
        attributes = {attribute["key"]: attribute["value"] for attribute in trial["user_attrs"]}
        assert trial["state"] == states[record.outcome]
        assert trial["constraints"] == [0.0, record.violations["latency_ms"]], "in the order of the limits"
        assert json.loads(attributes["violations"]) == record.violations
        assert attributes["heads"] == record.plan.label
        assert attributes["reason"] == record.message
        assert attributes["outcome"] == record.outcome
        assert [(point["step"], point["value"]) for point in trial["intermediate_values"]] == list(record.curve)
        assert trial.get("values") == (
            [record.metrics["val_accuracy"], record.metrics["latency_ms"]] if record.outcome is Outcome.OK else None
        )
    assert capfd.readouterr() == ("", "")


def test_it_listens_at_addresses_of_ipv6_too(kit: ModuleType, url: str) -> None:
    kit.open_ledger(url).close()
    with socket.socket(socket.AF_INET6) as taken:
        try:
            taken.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            serve_dashboard(url, "::1", port)
    assert str(caught.value) == (
        f"dashboard: cannot listen on ::1:{port} (Address already in use); choose another host or port"
    )


def test_a_missing_package_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    with pytest.raises(MissingExtraError) as caught:
        serve_dashboard(url)
    assert str(caught.value) == (
        "dashboard: the package optuna-dashboard is not installed; run pip install 'headtune[dashboard]', "
        "or pip install optuna-dashboard where headtune runs from a checkout"
    )


def test_a_storage_that_is_not_there_is_refused(url: str) -> None:
    with pytest.raises(StorageError, match=r"there is no .*study\.db; run the search first"):
        serve_dashboard(url)


def test_a_port_that_is_taken_is_refused_in_words(kit: ModuleType, url: str) -> None:
    kit.open_ledger(url).close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            serve_dashboard(url, port=port)
    assert str(caught.value) == (
        f"dashboard: cannot listen on 127.0.0.1:{port} (Address already in use); choose another host or port"
    )
