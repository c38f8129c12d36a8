"""One look for every picture: colours that colour-blind readers tell apart, quiet axes, no global state left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from headtune.report.front_rows import FrontRow

INK = "#1c2733"
QUIET = "#5f6c7b"
FAINT = "#c3ccd6"
GRID = "#e8ecf0"
PLAN = "#0072b2"
RECOMMENDED = "#d55e00"
PRESENT = "#1c2733"
RULE = "#009e73"

_ROLES = {"present": ("s", PRESENT, "present counts"), "rule": ("D", RULE, "rule of thumb")}

WIDTH_IN = 8.0
DPI = 200

_STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    # A task's metric may hold a dollar sign, which is no formula.
    "text.parse_math": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": QUIET,
    "axes.labelpad": 8.0,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.labelcolor": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "headtune",
    "svg.fonttype": "path",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How a plan is drawn.

    Attributes:
        name: of the look, for the page's style sheet.
    """

    name: str
    colour: str
    shape: str
    words: str


def mark_of(row: FrontRow) -> Mark:
    """How a plan is drawn: its colour says whether it is recommended, its shape whether it is a reference."""
    role = next((role for role in _ROLES if role in row.labels), "")
    shape, colour, words = _ROLES.get(role, ("o", PLAN, "finalist" if row.verified else "on the front"))
    if row.recommended:
        return Mark(
            name="recommended",
            colour=RECOMMENDED,
            shape=shape,
            words=f"recommended: the {words}" if role else "recommended",
        )
    return Mark(
        name=role or "plan", colour=colour, shape=shape, words=words if row.verified else f"{words}, not verified"
    )


@contextmanager
def house_style() -> Iterator[None]:
    """The look, for as long as a picture is drawn and saved."""
    with style.context(["default", _STYLE]):
        yield


def new_figure(height_in: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An explicit figure of the page's width, and its axes in reading order."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def settle(figure: Figure) -> None:
    """Lay the figure out once and for all, so that pixel distances hold and saving it is quick."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as the page and the folder need it.

    Attributes:
        name: the file's name without its ending.
        alt: what it shows, for those who cannot see it.
        caption: how to read it, in plain sentences.
    """

    name: str
    alt: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """The picture in pixels, for the folder."""
        return self._saved("png", {"Software": None})

    def svg(self) -> bytes:
        """The picture in lines, for the page: sharp at every size, and the same bytes for the same study."""
        return self._saved("svg", {"Date": None})

    def _saved(self, form: Literal["png", "svg"], metadata: dict[str, None]) -> bytes:
        file = BytesIO()
        with house_style():
            self.figure.savefig(file, format=form, dpi=DPI, metadata=metadata)
        return file.getvalue()
