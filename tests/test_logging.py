import logging
import sys
from pathlib import Path

import pytest

from headtune._logging import LOG_NAME, logging_to


def test_headtune_is_logged_from_info_and_others_from_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(tmp_path) as path:
        logging.getLogger("headtune.study").info("a %s", "fact")
        logging.getLogger("headtune.study").debug("a detail")
        logging.getLogger("optuna.storages").warning("a warning")
        logging.getLogger("optuna.storages").info("chatter")
        logging.getLogger("ray.tune").error("an error")
        logging.getLogger("other").error("not ours")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert path == tmp_path / LOG_NAME
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO headtune.study: a fact",
        "WARNING optuna.storages: a warning",
        "ERROR ray.tune: an error",
    ]
    captured = capsys.readouterr()
    assert (captured.out, "chatter" in captured.err, "a fact" in captured.err) == ("", False, False)


def test_the_log_is_continued(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with logging_to(tmp_path) as path:
            logging.getLogger("headtune").info(word)
    assert [line.rsplit(" ", 1)[1] for line in path.read_text().splitlines()] == ["first", "second"]


def test_loggers_are_as_they_were_afterwards_also_after_an_error(tmp_path: Path) -> None:
    names = ("headtune", "ray", "optuna")

    def state() -> list[tuple[list[logging.Handler], int, bool]]:
        loggers = [logging.getLogger(name) for name in names]
        return [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]

    def fail() -> None:
        with logging_to(tmp_path):
            assert state() != before
            raise RuntimeError

    before = state()
    with pytest.raises(RuntimeError):
        fail()
    assert state() == before


def test_a_folder_that_cannot_be_written_is_an_os_error_and_changes_nothing(tmp_path: Path) -> None:
    before = logging.getLogger("headtune").handlers[:]
    with pytest.raises(OSError, match="No such file"), logging_to(tmp_path / "missing"):
        pass
    assert logging.getLogger("headtune").handlers == before


def test_a_full_disk_is_said_once_and_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOG_NAME).symlink_to("/dev/full")
    with logging_to(tmp_path) as path:
        for _ in range(3):
            logging.getLogger("headtune").info("a fact that finds no room")
    said = f"note: the log {path} cannot be written: [Errno 28] No space left on device\n"
    assert capsys.readouterr() == ("", said)


def test_a_full_disk_hides_no_error(tmp_path: Path) -> None:
    def fail() -> None:
        with logging_to(tmp_path):
            logging.getLogger("headtune").info("a fact")
            raise RuntimeError("the reason")

    (tmp_path / LOG_NAME).symlink_to("/dev/full")
    with pytest.raises(RuntimeError, match="the reason"):
        fail()


def test_a_full_disk_without_a_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOG_NAME).symlink_to("/dev/full")
    monkeypatch.setattr(sys, "stderr", None)
    with logging_to(tmp_path):
        logging.getLogger("headtune").info("a fact")


def test_any_text_can_be_logged(tmp_path: Path) -> None:
    with logging_to(tmp_path) as path:
        logging.getLogger("headtune").info("the file %s", "a\udcffb ≤")
    assert path.read_text(encoding="utf-8").endswith("the file a\\udcffb ≤\n")


def test_a_library_that_reformats_its_own_handlers_leaves_our_lines_alone(tmp_path: Path) -> None:
    with logging_to(tmp_path) as log:
        for handler in logging.getLogger("ray").handlers:
            handler.setFormatter(logging.Formatter("RAY %(message)s"))
        logging.getLogger("headtune.study").info("search: 3 trials")
    assert log.read_text().endswith("INFO headtune.study: search: 3 trials\n")
