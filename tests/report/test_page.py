import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, stdev

import pytest

from headtune.heads.plan import HeadPlan
from headtune.report.front_rows import front_table
from headtune.report.page import MOST_TRIALS, render_page
from headtune.report.sites_plot import MOST_PLANS
from headtune.report.wording import short_plan
from headtune.report.writer import draw_pictures
from headtune.study.record import StudyRecord, Verdict
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]
VOID = {"meta", "img", "br"}


@dataclass
class Page(HTMLParser):
    """A page taken apart; fails on tags that do not nest."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        match tag:
            case "table":
                self.tables.append([])
            case "caption":
                self.captions.append("")
            case "tr":
                self.tables[-1].append([])
            case "td" | "th":
                self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data
        if "caption" in self.open:
            self.captions[-1] += data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]

    def table(self, *columns: str, said: str = "") -> dict[str, list[str]]:
        """Rows by their first cell, of the table with these columns and *said* in its caption."""
        for rows, caption in zip(self.tables, self.captions, strict=True):
            if said not in caption:
                continue
            tidy = [[" ".join(cell.split()) for cell in row] for row in rows]
            if all(cell.startswith(column) for cell, column in zip(tidy[0], columns, strict=False)):
                return {row[0]: row[1:] for row in tidy[1:]}
        raise AssertionError(f"no table begins with {columns}")


def render(record: StudyRecord) -> str:
    """The page without its pictures, which take time to draw."""
    return render_page(record, front_table(record), {})


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def html(report: Path) -> str:
    return (report / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return read(html)


@pytest.fixture
def partial_page(partial_report: Path) -> Page:
    return read((partial_report / "report.html").read_text("utf-8"))


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_nothing_is_loaded_from_elsewhere(html: str, page: Page) -> None:
    assert html.startswith("<!DOCTYPE html>")
    assert all(reference.startswith("#") for reference in page.attributes("href"))
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.attributes("src"))
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "embed", "form"} == set()
    assert not re.search(r"url\(|@import|https?://", html)


def test_pictures_are_the_drawn_ones(record: StudyRecord, page: Page) -> None:
    pictures = draw_pictures(record)
    sources = [base64.b64decode(source.partition(",")[2]) for source in page.attributes("src")]
    assert sources == [picture.svg() for picture in pictures]
    assert page.attributes("alt") == [picture.alt for picture in pictures]
    assert all(picture.caption in squeezed(page.text) for picture in pictures)


def test_links_lead_somewhere_and_ids_are_unique(page: Page) -> None:
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {reference.removeprefix("#") for reference in page.attributes("href")} <= set(ids)


def test_tables_can_be_read_aloud(page: Page) -> None:
    assert len(page.captions) == len(page.tables)
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in page.tags if tag == "th")
    assert ("html", {"lang": "en"}) in page.tags


def test_every_table_names_hold_and_weights(partial: StudyRecord, partial_page: Page) -> None:
    terms = f"hold: {partial.hold} · weights: {partial.weights}"
    assert partial_page.captions
    assert all(terms in caption for caption in partial_page.captions)


def test_every_plan_is_there_with_its_letter(record: StudyRecord, page: Page) -> None:
    plans = page.table("Plan", "val_accuracy higher is better")
    for row in front_table(record):
        assert any(cell.startswith(f"{row.letter} {short_plan(row.plan)}") for cell in plans)


def test_the_table_of_plans_holds_the_finalists_numbers(record: StudyRecord, page: Page) -> None:
    plans = page.table("Plan", "val_accuracy higher is better", "latency (ms) lower is better", "parameters")
    for finalist in record.finalists:
        cells = next(cells for first, cells in plans.items() if first.split()[1] == finalist.plan.label)
        values, test = finalist.quality["val_accuracy"], finalist.test["test_accuracy"]
        profile = finalist.latency
        assert profile is not None
        quality, latency, parameters, tested, ratio, samples, chance = cells
        assert chance == "25 %"
        mean, deviation = re.match(r"(\S+) ± (\S+) 3 seeds$", quality).groups()  # type: ignore[union-attr]
        digits = len(mean.partition(".")[2])
        assert (mean, deviation) == (f"{fmean(values):.{digits}f}", f"{stdev(values):.{digits}f}")
        assert tested.startswith(f"{fmean(test):.{digits}f} ± {stdev(test):.{digits}f}")
        low, high = (bound * 2.4 for bound in profile.ratio_interval)
        assert latency == f"{finalist.measured['latency_ms']:#.4g} {low:#.4g} – {high:#.4g}"
        assert parameters == f"{finalist.measured['parameters']:,.0f}"
        assert ratio == f"{profile.ratio:#.4g} {profile.ratio_interval[0]:#.4g} – {profile.ratio_interval[1]:#.4g}"
        assert samples == f"{profile.median_ms:#.4g} p90 {profile.p90_ms:#.4g}"


def test_ties_and_roles_are_said(record: StudyRecord, page: Page) -> None:
    plans = page.table("Plan", "val_accuracy higher is better")
    for finalist in record.finalists:
        said = next(first for first in plans if first.split()[1] == finalist.plan.label)
        assert ("tie with the best" in said) == finalist.tied_with_best
        assert ("rule of thumb" in said) == ("rule" in finalist.labels)
        assert ("present counts" in said) == ("present" in finalist.labels)
    assert [first for first in plans if "recommended" in first] == [
        first
        for first in plans
        if record.finalists[record.verdict.recommended].plan.label in first.split()  # type: ignore[union-attr, index]
    ]
    assert all(("not verified" in first) == cells[0].endswith("1 seed") for first, cells in plans.items())


def test_gains_and_costs_are_differences_to_the_present(record: StudyRecord, page: Page) -> None:
    gains = page.table("Plan", "val_accuracy", "latency (ms)", said="Bars are scaled by column")
    finalists = {label: one for one in record.finalists for label in one.labels}
    rule, present = finalists["rule"], finalists["present"]
    quality, latency, parameters, _ = next(cells for first, cells in gains.items() if first.split()[1] == "1-1-1")
    gap = fmean(rule.quality["val_accuracy"]) - fmean(present.quality["val_accuracy"])
    share = gap / fmean(present.quality["val_accuracy"])
    assert quality == f"−{-gap:#.3g} (−{-100 * share:.1f} %) worse"
    faster = present.measured["latency_ms"] - rule.measured["latency_ms"]
    assert latency.startswith(f"−{faster:#.3g} ms (−{100 * faster / present.measured['latency_ms']:.0f} %)")
    assert latency.endswith("better")
    assert parameters.startswith(f"−{present.measured['parameters'] - rule.measured['parameters']:,.0f} ")


def test_bars_are_scaled_to_the_widest_of_their_column(page: Page) -> None:
    widths = [style for tag, attributes in page.tags if tag == "i" for style in [attributes["style"]]]
    shares = [float(re.match(r"width: ([\d.]+)%; (left|right): 50%$", style).group(1)) for style in widths]  # type: ignore[union-attr]
    assert max(shares) == 50
    assert min(shares) >= 0
    assert any("right" in style for style in widths)


def test_the_sites_table_holds_every_count(record: StudyRecord, page: Page) -> None:
    sites = page.table("Site", "Attends to", "Width", "Present")
    others = [row for row in front_table(record) if "present" not in row.labels]
    for site in record.sites:
        role, width, present, *counts = sites[site.path]
        assert (role, width, present) == ("itself", "64", "8 × 8")
        assert counts == [f"{row.plan[site.path].num_heads} × {row.plan[site.path].head_dim}" for row in others]


def test_the_latency_range_is_the_profiles(record: StudyRecord, page: Page) -> None:
    table = page.table("Plan", "latency (ms) 95 % interval", "time / present")
    assert record.latency_range is not None
    profile = record.latency_range.profiles["largest"]
    latency, ratio, samples, number, notes = next(cells for first, cells in table.items() if "all largest" in first)
    low, high = (bound * 2.4 for bound in profile.ratio_interval)
    assert latency == f"{profile.ratio * 2.4:.3f} {low:.3f} – {high:.3f}"
    assert ratio == f"{profile.ratio:.3f} {profile.ratio_interval[0]:.3f} – {profile.ratio_interval[1]:.3f}"
    assert samples == f"{profile.median_ms:.3f} p90 {profile.p90_ms:.3f}"
    assert (number, notes) == ("48", "settled")


def test_a_shaky_timing_is_told(record: StudyRecord) -> None:
    assert record.latency_range is not None
    shaky = replace(record.latency_range.profiles["present"], settled=False, contended=True)
    timed = replace(record.latency_range, profiles={"present": shaky})
    page = read(render(replace(record, latency_range=timed)))
    (cells,) = page.table("Plan", "latency (ms) 95 % interval").values()
    assert cells[-1] == "did not reach the wanted precision in time, others kept the device busy"


def test_the_headline_gives_plan_rule_findings_and_the_whole_plan(record: StudyRecord, page: Page) -> None:
    text = squeezed(page.text)
    assert record.verdict is not None
    assert "Keep the present counts: 8-8-8 heads" in text
    assert "The fastest plan whose val_accuracy is not significantly worse than that of the best." in text
    assert all(finding in text for finding in record.verdict.findings)
    assert str(record.present) in text


def test_what_is_needed_to_run_it_again_is_there(record: StudyRecord, page: Page) -> None:
    text = squeezed(page.text)
    for said in (
        "Task ../examples/digits_vit.py:task",
        "Objectives maximize val_accuracy; minimize latency (ms)",
        "Constraints latency_ms ≤ 1.25 × present",
        "Limits latency at most 3 ms",
        "Hold, weights width, fresh",
        "Space 216 legal plans over 3 sites",
        "Sampler gp",
        "Seed 0",
        "Trials asked for 30",
        "Epochs a trial 12",
        "Versions headtune 0.1.0, torch 2.13.0, python 3.11.9, platform Linux x86_64",
        "Device cpu: Example CPU @ 2.10GHz",
        "Threads 1",
        "Number type float32",
        "Batch size 32",
        "Sequence length 64",
    ):
        assert said in text


def test_failed_trials_are_listed_with_their_reasons(record: StudyRecord) -> None:
    said = "raised an error or lost its process: ValueError: no data (train.py, line 3)"
    bad = replace(record.trials[7], outcome=Outcome.CRASHED, message=said, metrics={})
    page = read(render(replace(record, trials=(*record.trials[:7], bad, *record.trials[8:]))))
    assert page.table("Trial", "Plan", "Ended", "Reason") == {"7": [bad.plan.label, "crashed", said]}


def test_all_trials_are_listed_with_how_they_ended(record: StudyRecord, page: Page) -> None:
    rows = page.table("Trial", "Plan", "val_accuracy", "latency (ms)", "How it ended")
    assert [first.split()[0] for first in rows] == [str(trial.number) for trial in record.trials]
    assert rows["0 present counts"][1] == f"{record.trials[0].metrics['val_accuracy']:.4f}"


def test_a_very_long_list_of_trials_is_cut_and_says_so(record: StudyRecord) -> None:
    trials = tuple(
        replace(record.trials[0], number=i, curve=(), metrics={"val_accuracy": 0.5, "latency_ms": 2.0 + i})
        for i in range(MOST_TRIALS + 1)
    )
    page = read(render(replace(record, trials=trials)))
    assert len(page.table("Trial", "Plan", "val_accuracy")) == MOST_TRIALS
    assert "The first 500 of 501; trials.csv holds all of them." in squeezed(page.text)


HOSTILE = "<script>alert('1')</script>\"&$\\frac{"


def test_hostile_names_stay_text(record: StudyRecord) -> None:
    goal = replace(record.objectives[0], metric=HOSTILE)
    plan = HeadPlan.of({f"{HOSTILE}.{i}": here for i, (_, here) in enumerate(record.present)})
    sites = tuple(replace(site, path=path) for site, path in zip(record.sites, plan.paths, strict=True))
    trial = replace(
        record.trials[0],
        plan=plan,
        params={HOSTILE: HOSTILE},
        metrics={HOSTILE: 0.9, "latency_ms": 2.0},
        violations={},
    )
    bad = replace(trial, number=1, outcome=Outcome.CRASHED, message=HOSTILE)
    hostile = replace(
        record,
        name=HOSTILE,
        task=HOSTILE,
        sampler=HOSTILE,
        sites=sites,
        objectives=(goal, record.objectives[1]),
        constraints={HOSTILE: HOSTILE},
        limits={HOSTILE: 0.5},
        baselines={"present": plan},
        trials=(trial, bad),
        verify_trials=(),
        finalists=(),
        verdict=Verdict(recommended=None, rule=HOSTILE, findings=(HOSTILE,)),
        latency_range=None,
        versions={HOSTILE: HOSTILE},
    )
    pictures = {picture.name: picture for picture in draw_pictures(hostile)}
    html = render_page(hostile, front_table(hostile), pictures)
    page = read(html)
    assert {"front", "sites", "curves"} <= pictures.keys()
    assert {tag for tag, _ in page.tags} & {"script"} == set()
    assert "<script" not in html
    for said in (f"Task {HOSTILE}", f"Sampler {HOSTILE}", f"Constraints {HOSTILE}", f"Versions {HOSTILE} {HOSTILE}"):
        assert said in squeezed(page.text)
    assert page.table("Trial", "Plan", "Ended", "Reason")["1"][2] == HOSTILE
    assert page.table("Site", "Attends to")[f"{HOSTILE}.0"]


def test_params_stand_with_their_plan(make_record: MakeRecord) -> None:
    page = read(render(make_record(params={"lr": 0.001, "norm": "pre"})))
    assert all("lr 0.001, norm pre" in first for first in page.table("Plan", "val_accuracy higher is better"))


def test_partial_studies_say_what_is_missing(partial: StudyRecord, partial_page: Page) -> None:
    text = squeezed(partial_page.text)
    front = bool(front_table(partial))
    verdict, timed = partial.verdict, partial.latency is not None
    recommended = verdict is not None and verdict.recommended is not None
    for said, expected in (
        ("No plan has been trained to the end yet, so there is no front to show.", not front),
        ("No plan has been trained to the end yet.", not front),
        ("The present counts have not been trained to the end", not front),
        ("No objective and no constraint of this study names a latency, so nothing was timed.", not timed),
        ("The hypervolume is known once the baselines have been trained.", partial.reference_point is None),
        ("Recommended: plan", recommended),
        ("These plans were trained with one seed each", front and not partial.finalists),
        (
            "No training has reported a quality",
            not any(trial.curve for trial in partial.trials) or not _quality(partial),
        ),
    ):
        assert (said in text) == expected, said
    for site in partial.sites:
        assert site.path in text


def _quality(record: StudyRecord) -> bool:
    return any(not goal.measured for goal in record.objectives)


def test_a_study_that_retrains_nothing_says_so(record: StudyRecord) -> None:
    once = replace(record, verify_trials=())
    said = "but not retrained: their quality is that of the search’s one seed."
    assert said in squeezed(read(render(once)).text)
    assert said not in squeezed(read(render(record)).text)


def test_only_one_plan_has_nothing_to_compare(make_record: MakeRecord) -> None:
    text = squeezed(read(render(make_record(trials=1, verified=False))).text)
    assert "The present counts are the only plan shown: there is nothing to compare them with." in text


def test_many_sites_are_folded_away(make_record: MakeRecord) -> None:
    many, few = make_record(sites=96, trials=6), make_record()
    assert "All 96 sites as a table" in read(render(many)).text
    assert "sites as a table" not in read(render(few)).text


def test_a_front_of_hundreds_of_plans_names_the_first_ones_per_site(record: StudyRecord) -> None:
    many = tuple(
        replace(
            record.trials[0],
            number=i,
            params={"lr": i},
            metrics={"val_accuracy": 0.5 + i / 4000, "latency_ms": 2 + i / 900},
        )
        for i in range(200)
    )
    page = read(render(replace(record, trials=many, finalists=(), verdict=None)))
    assert len(page.table("Plan", "val_accuracy higher is better")) == 200
    assert len(page.table("Site", "Attends to")["blocks.0.attn"]) <= 3 + MOST_PLANS
    assert "The first plans only; front.json holds all of them." in squeezed(page.text)
