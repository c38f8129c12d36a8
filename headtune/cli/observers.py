"""Progress on stderr: a live view on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from operator import eq

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headtune.cli.logged import Logged
from headtune.cli.progress import Progress
from headtune.cli.terminal import say, stderr, table
from headtune.cli.trial_wording import tally, trial_ending, trial_state
from headtune.cli.wording import objective_title, value
from headtune.pareto import Objective
from headtune.trial.contract import Observer
from headtune.trial.record import TrialRecord

_MOST_ROWS = 8


@contextmanager
def watching(objectives: Sequence[Objective] = ()) -> Iterator[Observer]:
    """An observer that shows progress on stderr and logs it; what the person's code prints goes to stderr meanwhile."""
    console = stderr()
    with redirect_stdout(sys.stderr):
        if not console.is_terminal:
            yield Logged(Lines(objectives, say), objectives)
            return
        observer = Screen(objectives, console)
        with Live(console=console, transient=True, refresh_per_second=4, get_renderable=observer.view):
            yield Logged(observer, objectives)


class Lines:
    """Plain lines: every phase, note and ended trial, and how far the study is.

    Args:
        objectives: the study's.
        write: writes one line.
        clock: seconds from any start.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = Progress(objectives, clock)
        self._write = write

    def phase(self, name: str, detail: str = "") -> None:
        """Name the phase."""
        self._progress.phase(name, detail)
        self._write(f"{name}: {detail}" if detail else name)

    def note(self, message: str) -> None:
        """Write the note."""
        self._write(message)

    def plan(self, trials: int, finished: int) -> None:
        """Say how many trials are wanted."""
        self._progress.plan(trials, finished)
        self._write(f"{self._progress.phase_name}: {tally(self._progress)}")

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """Let them count for the front; they were told when they ended."""
        self._progress.earlier(records)

    def trial(self, record: TrialRecord) -> None:
        """Say how a trial ended."""
        self._progress.trial(record)
        if record.outcome is None:
            return
        ending = trial_ending(record, self._progress.objectives)
        self._write(f"{self._progress.phase_name}: {record.title}: {ending} [{tally(self._progress)}]")


class Screen:
    """A live view: the phase, how far it is, what runs, and the front so far; notes and failures scroll by above it.

    Args:
        objectives: the study's.
        console: where notes are written.
        clock: seconds from any start.
    """

    def __init__(
        self, objectives: Sequence[Objective], console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = Progress(objectives, clock)
        self._console = console

    def phase(self, name: str, detail: str = "") -> None:
        """Show the phase."""
        self._progress.phase(name, detail)

    def note(self, message: str) -> None:
        """Write the note above the view."""
        self._console.print(Text(message))

    def plan(self, trials: int, finished: int) -> None:
        """Show how many trials are wanted."""
        self._progress.plan(trials, finished)

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """Show them on the front."""
        self._progress.earlier(records)

    def trial(self, record: TrialRecord) -> None:
        """Show the trial; write why it failed above the view."""
        self._progress.trial(record)
        if record.failed:
            self.note(f"{record.title}: {trial_ending(record, self._progress.objectives)}")

    def view(self) -> RenderableType:
        """What the terminal shows now."""
        progress = self._progress
        head = Text(f"{progress.phase_name:<8}", style="bold")
        head.append(tally(progress) or progress.detail, style="not bold")
        quality = next((goal.metric for goal in progress.objectives if not goal.measured), "")
        running = [
            Text(f"        {record.title}: {trial_state(record, quality)}", style="dim") for record in progress.running
        ]
        return Group(head, *running[:_MOST_ROWS], *self._front())

    def _front(self) -> list[RenderableType]:
        points, objectives = self._progress.front.points, self._progress.objectives
        if not points:
            return []
        rows = table("front so far", *map(objective_title, objectives), numbers=len(objectives))
        best = [min(losses) for losses in zip(*(_losses(point.values, objectives) for point in points), strict=True)]
        for point in points[:_MOST_ROWS]:
            is_best = map(eq, _losses(point.values, objectives), best)
            cells = [
                Text(value(number), "bold" if top else "") for number, top in zip(point.values, is_best, strict=True)
            ]
            rows.add_row(point.item.title, *cells)
        left = len(points) - _MOST_ROWS
        return [Text(), rows, *([Text(f"and {left} more", style="dim")] if left > 0 else [])]


def _losses(values: Sequence[float], objectives: Sequence[Objective]) -> list[float]:
    return [goal.loss(number) for goal, number in zip(objectives, values, strict=True)]
