"""Short labels beside points, placed so that they hide neither each other nor a point."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

_STEPS_PT = (5.0, 11.0, 18.0, 27.0, 38.0)
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
_POINT_RADIUS_PT = 4.5
_LEADER_FROM_PT = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text beside a point, in the axes' data coordinates."""

    text: str
    x: float
    y: float
    colour: str


def place_labels(axes: Axes, labels: Sequence[Label], obstacles: Sequence[tuple[float, float]] = ()) -> list[Bbox]:
    """Write each label at the nearest place that is free of points and of the labels before it.

    The figure's layout must be settled, since distances are measured in pixels.

    Args:
        axes: where to write.
        labels: in order of importance.
        obstacles: further points (x, y) to stay clear of.

    Returns:
        The box of each label, in pixels.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = figure.dpi / 72
    taken = [_around(axes, x, y, scale) for x, y in [*((label.x, label.y) for label in labels), *obstacles]]
    boxes: list[Bbox] = []
    for label in labels:
        boxes.append(_write(axes, label, [*taken, *boxes], scale))
    return boxes


def _write(axes: Axes, label: Label, taken: Sequence[Bbox], scale: float) -> Bbox:
    text = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(0, 0),
        textcoords="offset points",
        verticalalignment="bottom",
        color=label.colour,
        fontsize=8.5,
        fontweight="bold",
        zorder=9,
        arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 0.6, "shrinkA": 0.0, "shrinkB": 4.0},
    )
    size, frame = Text.get_window_extent(text), axes.get_window_extent()
    across, up = axes.transData.transform((label.x, label.y))
    places = [(step, _beside(across, up, side, step * scale, size)) for step, side in product(_STEPS_PT, _SIDES)]
    step, box = min(places, key=lambda place: _hidden(place[1], taken) + _outside(place[1], frame))
    text.set_position(((box.x0 - across) / scale, (box.y0 - up) / scale))
    if text.arrow_patch is not None:
        text.arrow_patch.set_visible(step >= _LEADER_FROM_PT)
    return box


def _beside(across: float, up: float, side: tuple[int, int], step: float, size: Bbox) -> Bbox:
    x0 = across + side[0] * step - (1 - side[0]) / 2 * size.width
    y0 = up + side[1] * step - (1 - side[1]) / 2 * size.height
    return Bbox.from_bounds(x0, y0, size.width, size.height)


def _around(axes: Axes, x: float, y: float, scale: float) -> Bbox:
    across, up = axes.transData.transform((x, y))
    radius = _POINT_RADIUS_PT * scale
    return Bbox.from_extents(across - radius, up - radius, across + radius, up + radius)


def _hidden(box: Bbox, taken: Sequence[Bbox]) -> float:
    """The area of *box* that lies over others, in square pixels."""
    shared = (Bbox.intersection(box, other) for other in taken)
    return sum(part.width * part.height for part in shared if part is not None)


def _outside(box: Bbox, frame: Bbox) -> float:
    """The area of *box* that lies outside *frame*, in square pixels."""
    inside = Bbox.intersection(box, frame)
    return box.width * box.height - (0.0 if inside is None else inside.width * inside.height)
