import random
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from headtune.report.figure_style import house_style, new_figure
from headtune.report.label_placement import Label, place_labels


def settled_axes() -> Axes:
    with house_style():
        figure, (axes,) = new_figure(4.0)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        figure.draw_without_rendering()
    return axes


def labels(*points: tuple[float, float]) -> list[Label]:
    return [Label(text=chr(65 + i), x=x, y=y, colour="black") for i, (x, y) in enumerate(points)]


def overlap(a: Bbox, b: Bbox) -> bool:
    return Bbox.intersection(a, b) is not None and a.overlaps(b)


def test_a_lone_label_stands_close_above_to_the_right() -> None:
    axes = settled_axes()
    (box,) = place_labels(axes, labels((0.5, 0.5)))
    across, up = axes.transData.transform((0.5, 0.5))
    assert 0 < box.x0 - across < 15
    assert 0 < box.y0 - up < 15


def test_labels_of_points_side_by_side_do_not_overlap() -> None:
    chance = random.Random(3)
    for _ in range(5):
        axes = settled_axes()
        points = [(0.5 + 0.04 * chance.random(), 0.5 + 0.04 * chance.random()) for _ in range(6)]
        boxes = place_labels(axes, labels(*points))
        assert not any(overlap(a, b) for a, b in combinations(boxes, 2))


def test_labels_stay_inside_the_axes() -> None:
    axes = settled_axes()
    frame = axes.get_window_extent()
    for box in place_labels(axes, labels((0, 0), (1, 0), (0, 1), (1, 1))):
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1


def test_labels_keep_clear_of_obstacles() -> None:
    axes = settled_axes()
    (free,) = place_labels(axes, labels((0.5, 0.5)))
    middle = axes.transData.inverted().transform(((free.x0 + free.x1) / 2, (free.y0 + free.y1) / 2))
    axes = settled_axes()
    (box,) = place_labels(axes, labels((0.5, 0.5)), [(float(middle[0]), float(middle[1]))])
    assert not overlap(box, free)


def test_the_text_is_drawn_where_the_box_says() -> None:
    axes = settled_axes()
    boxes = place_labels(axes, labels((0.3, 0.3), (0.31, 0.3)))
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    for text, box in zip(axes.texts, boxes, strict=True):
        drawn = Text.get_window_extent(text)
        assert abs(drawn.x0 - box.x0) < 1
        assert abs(drawn.y0 - box.y0) < 1
