"""The picture of counts: sites against plans, the darker the more heads."""

from collections.abc import Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm

from headtune.heads.plan import HeadCount
from headtune.heads.site import AttentionSite
from headtune.report.figure_style import INK, Picture, house_style, mark_of, new_figure, settle
from headtune.report.front_rows import FrontRow
from headtune.report.wording import count, short_plan
from headtune.study.record import StudyRecord

MOST_PLANS = 12
"""Plans drawn at most, so that the counts stay readable."""

_ONE_PANEL_UP_TO = 36
_MOST_PANELS = 3
_FEWEST_COLUMNS = 8
_HEADS = LinearSegmentedColormap.from_list("heads", ["#eef4f9", "#9cc7e4", "#2f86bd", "#003a5c"])


@house_style()
def sites_picture(record: StudyRecord, rows: Sequence[FrontRow]) -> Picture | None:
    """The number of heads of every site in the first plans shown; ``None`` where no plan is shown."""
    if not rows:
        return None
    plans = rows[:MOST_PLANS]
    panels = 1 if len(record.sites) <= _ONE_PANEL_UP_TO else min(_MOST_PANELS, ceil(len(record.sites) / 48))
    height = ceil(len(record.sites) / panels)
    parts = [record.sites[start : start + height] for start in range(0, len(record.sites), height)]
    labels = site_labels([site.path for site in record.sites], 36 if panels == 1 else 44 // panels)
    figure, grids = new_figure(0.7 + height * (0.3 if height <= 12 else 0.19), columns=panels)
    heads = [row.plan[site.path].num_heads for row in plans for site in record.sites]
    norm = LogNorm(min(heads), max(*heads, 2 * min(heads)))
    for axes, sites, start in zip(grids, parts, range(0, len(record.sites), height), strict=True):
        _draw(axes, sites, labels[start : start + height], plans, norm)
        axes.set_xlim(0, max(_FEWEST_COLUMNS // panels, len(plans)))
        axes.set_ylim(height, 0)
    words = [f"{row.letter} has {short_plan(row.plan)}" for row in plans]
    settle(figure)
    return Picture(
        figure=figure,
        name="sites",
        alt=f"Heads of {count(len(record.sites), 'site')} in {count(len(plans), 'plan')}: {'; '.join(words)}.",
        caption=_caption(record, plans, left_out=len(rows) - len(plans), cut=labels[0] != record.sites[0].path),
    )


def _draw(
    axes: Axes, sites: Sequence[AttentionSite], labels: Sequence[str], plans: Sequence[FrontRow], norm: LogNorm
) -> None:
    heads = [[row.plan[site.path].num_heads for row in plans] for site in sites]
    axes.pcolormesh(heads, cmap=_HEADS, norm=norm, edgecolors="white", linewidth=2)
    small = 8.5 if len(sites) <= _ONE_PANEL_UP_TO else 6.5
    for down, site in enumerate(sites):
        for across, row in enumerate(plans):
            shade = float(norm(row.plan[site.path].num_heads))
            colour = "white" if shade > 0.5 else INK
            text = _cell(row.plan[site.path], site)
            axes.text(across + 0.5, down + 0.52, text, ha="center", va="center", fontsize=small, color=colour)
    axes.set_xticks([across + 0.5 for across in range(len(plans))], [row.letter for row in plans])
    axes.set_yticks([down + 0.5 for down in range(len(sites))], labels)
    axes.tick_params(length=0, labelsize=small, top=False, labeltop=True, labelbottom=False)
    for label, row in zip(axes.get_xticklabels(), plans, strict=True):
        label.set(color=mark_of(row).colour, fontweight="bold", fontsize=9)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _cell(here: HeadCount, site: AttentionSite) -> str:
    """The heads, with ``/kv`` where they are grouped and ``x`` head_dim where it is neither the site's nor implied."""
    implied = site.width // here.num_heads
    return str(here) if here.head_dim not in (site.head_dim, implied) else str(here).partition("x")[0]


def site_labels(paths: Sequence[str], longest: int) -> list[str]:
    """Paths at most *longest* characters long: where need be without most of what all share, then with cut names.

    Numbers are kept, since they tell the layers apart. Labels stay different from each other, even if longer.
    """
    if all(len(path) <= longest for path in paths):
        return list(paths)
    split = [path.split(".") for path in paths]
    head = max(0, _shared(split) - 1)
    tail = min(_shared([parts[::-1] for parts in split]), min(map(len, split)) - head - 1)
    bare = [parts[head : len(parts) - tail] for parts in split]
    tries = [[".".join(_cut(part, room) for part in parts) for parts in bare] for room in (longest, 12, 8, 5, 3)]
    different = [list(paths), *(labels for labels in tries if len(set(labels)) == len(paths))]
    fitting = [labels for labels in different if max(map(len, labels)) <= longest]
    return fitting[0] if fitting else different[-1]


def _shared(split: Sequence[Sequence[str]]) -> int:
    """How many leading parts all paths share; each keeps one of its own."""
    most = min(map(len, split)) - 1
    return next((place for place in range(most) if len({parts[place] for parts in split}) > 1), most)


def _cut(part: str, room: int) -> str:
    return part if len(part) <= room or part.isdigit() else f"{part[: room - 1]}…"


def _caption(record: StudyRecord, plans: Sequence[FrontRow], *, left_out: int, cut: bool) -> str:
    said = [f"Heads of each site, hold: {record.hold}; the darker the more."]
    if any(here.num_heads != here.num_kv_heads for row in plans for _, here in row.plan):
        said.append("8/2 means 8 query heads that share 2 key/value heads.")
    if cut:
        said.append("The names of the sites are cut short; the table has them whole.")
    if left_out:
        said.append(f"{count(left_out, 'further plan')} of the front {'is' if left_out == 1 else 'are'} left out here.")
    return " ".join(said)
