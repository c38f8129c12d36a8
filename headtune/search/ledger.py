"""A study's one durable truth: everything it knows, in an Optuna storage, written by one driver."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from optuna.storages import BaseStorage, RDBStorage

from headtune.errors import StorageError
from headtune.pareto import Objective
from headtune.search.book import TrialBook, told
from headtune.search.facts import Facts
from headtune.search.fingerprint import changes, check_unchanged
from headtune.search.lease import Lease, take_lock
from headtune.search.lock import FileLock, lock_path
from headtune.search.sqlite import drop_log, identity, sqlite_path
from headtune.search.storage import open_storage
from headtune.search.studies import VERIFY_SUFFIX, find_study, open_study, study_names
from headtune.search.urls import shown
from headtune.trial.record import TrialRecord

VERSION = 1
"""Of the layout in which trials and facts are kept."""

_ABANDONED = "abandoned"

_STALE = "its driver ended while it ran; the same training is started again"


class LedgerView:
    """A study as anyone may read it, while it runs or after."""

    def __init__(self, storage: BaseStorage, name: str, study_id: int) -> None:
        self.name = name
        self._storage = storage
        self._study_id = study_id
        self._facts = Facts(storage, study_id)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is optimised."""
        return tuple(Objective(**goal) for goal in self.recall("objectives"))

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the study's last driver said of it."""
        found: Mapping[str, Any] = self.recall("manifest")
        return found

    def trials(self) -> tuple[TrialRecord, ...]:
        """Baselines and search, in the order of their numbers."""
        return TrialBook(self._storage, self._study_id, self.objectives).records()

    def verify_trials(self) -> tuple[TrialRecord, ...]:
        """The retrainings of finalists, in the order of their numbers."""
        with told():
            study_id = find_study(self._storage, self.name + VERIFY_SUFFIX)
        return () if study_id is None else TrialBook(self._storage, study_id, ()).records()

    def recall(self, key: str) -> Any:  # noqa: ANN401
        """The value under *key*; ``None`` where nothing was remembered."""
        with told():
            return self._facts.recall(key)


class Ledger:
    """A study as its one driver has it: open it with :meth:`open`, close it when done.

    Example:
        >>> with Ledger.open("sqlite:///vit.db", "vit", objectives=goals, fingerprint={}, manifest={}) as ledger:
        ...     ledger.remember("elapsed_s", 3.5)
    """

    def __init__(self, view: LedgerView, storage: RDBStorage, study_id: int, lease: Lease, file: Path | None) -> None:
        self._view = view
        self._file = file
        self._identity = None if file is None else identity(file)
        self._storage = storage
        self._study_id = study_id
        self._facts = Facts(storage, study_id)
        self._lease = lease

    @classmethod
    def open(
        cls,
        url: str,
        name: str,
        *,
        objectives: Sequence[Objective],
        fingerprint: Mapping[str, Any],
        manifest: Mapping[str, Any],
    ) -> "Ledger":
        """Begin the study called *name*, or continue it; trials that its last driver left running are started again.

        One that was abandoned, or changed before its first trial, is forgotten and begun anew.

        Args:
            url: an Optuna storage URL.
            name: the study's name.
            objectives: what is optimised.
            fingerprint: JSON values that may not change between two starts.
            manifest: JSON values that say what the study is, for whoever reads it.

        Raises:
            StorageError: the storage cannot be opened or made, or holds another study of that name.
            MissingExtraError: the database's driver package is not installed.
            StudyBusyError: another driver holds the study.
            StudyChangedError: the fingerprint is another one than the study began with.
        """
        goals = [{"metric": goal.metric, "direction": goal.direction} for goal in objectives]
        with ExitStack() as undo, told():
            storage = open_storage(url, create=True)
            lock = FileLock(lock_path(url, name))
            take_lock(lock, name)
            undo.callback(lock.release)
            meaning = {"objectives": goals, **fingerprint}
            _discard_fruitless(storage, name, meaning, lock)
            study_id = _begin(storage, name, objectives, meaning, shown(url))
            facts = Facts(storage, study_id)
            lease = Lease.take(lock, facts, name)
            undo.callback(lease.release)
            facts.remember("objectives", goals)
            facts.remember("manifest", dict(manifest))
            view = LedgerView(storage, name, study_id)
            ledger = cls(view, storage, study_id, lease, sqlite_path(url))
            ledger._release_trials()
            undo.pop_all()
        return ledger

    @classmethod
    def read(cls, url: str, name: str) -> LedgerView:
        """The study called *name*, to read only, also while a driver runs it.

        Raises:
            StorageError: there is no such storage, or no such study in it.
        """
        with told():
            storage = open_storage(url, create=False)
            study_id = find_study(storage, name)
            if study_id is None or Facts(storage, study_id).recall("fingerprint") is None:
                names = ", ".join(study_names(storage)) or "no study"
                raise StorageError(f"storage: {shown(url)} has no study {name!r}; it has {names}")
        return LedgerView(storage, name, study_id)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The study's name."""
        return self._view.name

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is optimised."""
        return self._view.objectives

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What this driver said of the study."""
        return self._view.manifest

    def trials(self) -> tuple[TrialRecord, ...]:
        """Baselines and search, in the order of their numbers."""
        return self._view.trials()

    def verify_trials(self) -> tuple[TrialRecord, ...]:
        """The retrainings of finalists, in the order of their numbers."""
        return self._view.verify_trials()

    def recall(self, key: str) -> Any:  # noqa: ANN401
        """The value under *key*; ``None`` where nothing was remembered."""
        self._lease.alone()
        return self._view.recall(key)

    def remember(self, key: str, value: object) -> None:
        """Keep a JSON value under *key*, in place of what was there.

        Raises:
            StorageError: the SQLite file was removed or replaced.
        """
        self._check_file()
        with told():
            self._facts.remember(key, value)

    def abandon(self) -> None:
        """Let the next start begin anew: nothing of this one is worth going on with. Until then it can be read."""
        self.remember(_ABANDONED, True)

    def book(self, limits: Sequence[str] = ()) -> TrialBook:
        """The search's trials, to write; *limits* are the constraints' names in their fixed order."""
        return TrialBook(self._storage, self._study_id, self.objectives, limits)

    def verify_book(self) -> TrialBook:
        """The finalists' retrainings, to write. They are a study of their own, so that the main one stays what it was.

        They are not measured, so that only the task's own metrics are objectives there.
        """
        goals = [goal for goal in self.objectives if not goal.measured] or self.objectives
        with told():
            study_id = open_study(self._storage, self.name + VERIFY_SUFFIX, goals)
        return TrialBook(self._storage, study_id, goals)

    def beat(self) -> None:
        """Keep the lease; costs nothing when done often.

        Raises:
            StudyBusyError: another driver took the study over, since this one was silent for too long.
            StorageError: the SQLite file was removed or replaced.
        """
        self._check_file()
        with told():
            self._lease.beat()

    def close(self) -> None:
        """Set trials that still run to be started again by the next driver, and give the study back.

        Raises:
            StorageError: the SQLite file was removed or replaced.
        """
        try:
            self._check_file()
        except StorageError:
            self._lease.drop()
            self._storage.engine.dispose()
            raise
        with told():
            try:
                if self._lease.held():
                    self._release_trials()
            finally:
                self._lease.release()
        self._storage.engine.dispose()
        if self._file is not None:
            drop_log(self._file)

    def _check_file(self) -> None:
        """Without this, what is written into a file that has no name any more would be lost without a word."""
        self._lease.alone()
        if self._file is not None and identity(self._file) != self._identity:
            raise StorageError(
                f"storage: {self._file} was removed or replaced while the study ran; move it back to go on, "
                "or run the command again to begin anew"
            )

    def _release_trials(self) -> None:
        self.book().release(_STALE)
        with told():
            study_id = find_study(self._storage, self.name + VERIFY_SUFFIX)
        if study_id is not None:
            TrialBook(self._storage, study_id, ()).release(_STALE)


def _discard_fruitless(storage: BaseStorage, name: str, meaning: Mapping[str, Any], lock: FileLock) -> None:
    """Forget a study that was abandoned, or that never started a trial and now means something else."""
    found = find_study(storage, name)
    if found is None:
        return
    facts = Facts(storage, found)
    before = facts.recall("fingerprint")
    if before is None:
        return
    untried = storage.get_n_trials(found) == 0 and changes(before, meaning)
    if not untried and facts.recall(_ABANDONED) is None:
        return
    Lease.take(lock, facts, name)  # refuses where a driver on another machine is about to start
    storage.delete_study(found)


def _begin(
    storage: BaseStorage, name: str, objectives: Sequence[Objective], fingerprint: Mapping[str, Any], where: str
) -> int:
    """The study's id; made if it is not there, refused where it means something else."""
    found = find_study(storage, name)
    if found is None:
        found = open_study(storage, name, objectives)
    facts = Facts(storage, found)
    before = facts.recall("fingerprint")
    if before is None:
        if storage.get_n_trials(found) > 0:
            raise StorageError(f"storage: the study {name!r} in {where} was not made by headtune; choose another name")
        facts.remember("version", VERSION)
        facts.remember("fingerprint", dict(fingerprint))
    else:
        check_unchanged(name, before, fingerprint)
        version = facts.recall("version")
        if version != VERSION:
            raise StorageError(
                f"storage: the study {name!r} in {where} has layout {version}, this headtune knows {VERSION}; "
                "install the version that made it, or choose another name"
            )
    return found
