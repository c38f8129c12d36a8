"""Short labels beside points, placed so that they hide neither each other nor a point."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

_STEPS_PT = (5.0, 11.0, 18.0, 27.0, 38.0)
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
_POINT_RADIUS_PT = 4.5
_LEADER_FROM_PT = 12.0

Boxes = npt.NDArray[np.float64]
"""Boxes in pixels, shape (boxes, 4): left, bottom, right, top."""


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
    if not labels:
        return []
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = figure.dpi / 72
    points = axes.transData.transform([*((label.x, label.y) for label in labels), *obstacles])
    radius = _POINT_RADIUS_PT * scale
    taken = np.hstack([points - radius, points + radius])
    boxes: list[Bbox] = []
    for label, (across, up) in zip(labels, points, strict=False):
        box = _write(axes, label, (across, up), taken, scale)
        taken = np.vstack([taken, box.extents])
        boxes.append(box)
    return boxes


def _write(axes: Axes, label: Label, anchor: tuple[float, float], taken: Boxes, scale: float) -> Bbox:
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
    tries = list(product(_STEPS_PT, _SIDES))
    places = np.array([_beside(anchor, side, step * scale, size) for step, side in tries])
    best = int(np.argmin(_hidden(places, taken) + _outside(places, frame)))
    box = Bbox.from_extents(*places[best])
    text.set_position(((box.x0 - anchor[0]) / scale, (box.y0 - anchor[1]) / scale))
    if text.arrow_patch is not None:
        text.arrow_patch.set_visible(tries[best][0] >= _LEADER_FROM_PT)
    return box


def _beside(anchor: tuple[float, float], side: tuple[int, int], step: float, size: Bbox) -> list[float]:
    left = anchor[0] + side[0] * step - (1 - side[0]) / 2 * size.width
    bottom = anchor[1] + side[1] * step - (1 - side[1]) / 2 * size.height
    return [left, bottom, left + size.width, bottom + size.height]


def _hidden(places: Boxes, taken: Boxes) -> npt.NDArray[np.float64]:
    """The area of each place that lies over others, in square pixels."""
    low = np.maximum(places[:, None, :2], taken[None, :, :2])
    high = np.minimum(places[:, None, 2:], taken[None, :, 2:])
    shared: npt.NDArray[np.float64] = np.clip(high - low, 0, None).prod(axis=2).sum(axis=1)
    return shared


def _outside(places: Boxes, frame: Bbox) -> npt.NDArray[np.float64]:
    """The area of each place that lies outside *frame*, in square pixels."""
    area: npt.NDArray[np.float64] = (places[:, 2:] - places[:, :2]).prod(axis=1)
    return area - _hidden(places, np.array([frame.extents]))
