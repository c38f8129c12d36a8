from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from headtune.report.figure_style import Picture
from headtune.report.front_rows import front_table
from headtune.report.sites_plot import MOST_PLANS, site_labels, sites_picture
from headtune.study.record import StudyRecord

MakeRecord = Callable[..., StudyRecord]


def draw(record: StudyRecord) -> Picture:
    picture = sites_picture(record, front_table(record))
    assert picture is not None
    return picture


def shades(picture: Picture) -> list[np.ndarray]:
    meshes = [one for axes in picture.figure.axes for one in axes.collections if isinstance(one, QuadMesh)]
    return [np.asarray(mesh.get_array()) for mesh in meshes]


def test_each_cell_is_the_count_of_its_site_and_plan(record: StudyRecord) -> None:
    rows = front_table(record)
    (grid,) = shades(draw(record))
    assert grid.tolist() == [[row.plan[site.path].num_heads for row in rows] for site in record.sites]


def test_each_cell_says_its_count(record: StudyRecord) -> None:
    rows = front_table(record)
    (axes,) = draw(record).figure.axes
    assert [text.get_text() for text in axes.texts] == [
        str(row.plan[site.path].num_heads) for site in record.sites for row in rows
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == [row.letter for row in rows]
    assert [label.get_text() for label in axes.get_yticklabels()] == [site.path for site in record.sites]


def test_grouped_heads_name_their_key_value_heads(make_record: MakeRecord) -> None:
    record = make_record(hold="head_dim", group=4)
    picture = draw(record)
    texts = {text.get_text() for text in picture.figure.axes[0].texts}
    assert "8/2" in texts
    assert not any("x" in text for text in texts)
    assert "8/2 means 8 query heads that share 2 key/value heads." in picture.caption


def test_many_sites_stand_in_panels_side_by_side(make_record: MakeRecord) -> None:
    record = make_record(sites=96, trials=8, path="encoder.layers.{}.self_attention")
    picture = draw(record)
    assert len(picture.figure.axes) == 2
    rows = front_table(record)
    assert np.concatenate(shades(picture)).tolist() == [
        [row.plan[site.path].num_heads for row in rows] for site in record.sites
    ]
    labels = [label.get_text() for axes in picture.figure.axes for label in axes.get_yticklabels()]
    assert labels == [f"layers.{i}" for i in range(96)]
    assert "cut short" in picture.caption


def test_plans_beyond_the_most_are_left_out_and_said(make_record: MakeRecord) -> None:
    record = make_record()
    rows = front_table(record) * 3
    picture = sites_picture(record, rows)
    assert picture is not None
    assert shades(picture)[0].shape[1] == MOST_PLANS
    assert f"{len(rows) - MOST_PLANS} further plans of the front are left out here." in picture.caption


def test_hold_is_named(record: StudyRecord) -> None:
    assert draw(record).caption == "Heads of each site, hold: width; the darker the more."


def test_without_a_plan_there_is_no_picture(record: StudyRecord) -> None:
    assert sites_picture(record, ()) is None


def test_equal_counts_everywhere_still_have_a_shade(make_record: MakeRecord) -> None:
    assert shades(draw(make_record(trials=1, verified=False)))[0].tolist() == [[8], [8], [8]]


@pytest.mark.parametrize(
    ("paths", "longest", "labels"),
    [
        (["blocks.0.attn", "blocks.1.attn"], 20, ["blocks.0.attn", "blocks.1.attn"]),
        (["model.blocks.0.attention", "model.blocks.11.attention"], 20, ["blocks.0", "blocks.11"]),
        (["a_very_long_name_for_one_site"], 12, ["a_very_long…"]),
        (["model.transformer.attention_block"], 20, ["transformer"]),
        (
            ["net.encoder.layers.0.self_attention", "net.decoder.layers.3.cross_attention"],
            24,
            ["net.enco….laye….0.self…", "net.deco….laye….3.cros…"],
        ),
    ],
)
def test_long_paths_are_cut_but_keep_their_numbers(paths: list[str], longest: int, labels: list[str]) -> None:
    found = site_labels(paths, longest)
    assert found == labels
    assert len(set(found)) == len(paths)
    for path, label in zip(paths, found, strict=True):
        digits = [part for part in path.split(".") if part.isdigit()]
        assert [part for part in label.split(".") if part.isdigit()] == digits


def test_labels_stay_different_even_if_too_long() -> None:
    paths = [f"x.{name}" for name in ("attention_a", "attention_b")]
    assert site_labels(paths, 5) == ["x.attention_a", "x.attention_b"]
