from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev

from headtune.report.front_rows import front_table
from headtune.report.headline import Headline, Tile, headline
from headtune.study.record import StudyRecord, Verdict

MakeRecord = Callable[..., StudyRecord]


def of(record: StudyRecord) -> Headline:
    return headline(record, front_table(record))


def recommending(record: StudyRecord, index: int | None, rule: str = "the knee of the front") -> StudyRecord:
    return replace(record, verdict=Verdict(recommended=index, rule=rule))


def index_of(record: StudyRecord, label: str) -> int:
    return next(i for i, finalist in enumerate(record.finalists) if label in finalist.labels)


def tile(head: Headline, title: str) -> Tile:
    return next(tile for tile in head.tiles if tile.title == title)


def test_a_new_plan_is_advised_with_its_rule(record: StudyRecord) -> None:
    index = next(i for i, finalist in enumerate(record.finalists) if not finalist.labels)
    head = of(recommending(record, index))
    assert head.title == f"Use {record.finalists[index].plan.label} heads"
    assert head.sentences == ("The knee of the front.",)
    assert head.row is not None
    assert head.row.plan == record.finalists[index].plan


def test_keeping_the_present_counts_is_advice_too(record: StudyRecord) -> None:
    assert of(recommending(record, index_of(record, "present"))).title == "Keep the present counts: 8-8-8 heads"
    assert of(recommending(record, index_of(record, "rule"))).title == "Follow the rule of thumb: 1-1-1 heads"


def test_the_tiles_are_the_finalists_numbers(record: StudyRecord) -> None:
    index = next(i for i, finalist in enumerate(record.finalists) if not finalist.labels)
    finalist, head = record.finalists[index], of(recommending(record, index))
    values = finalist.quality["val_accuracy"]
    quality = tile(head, "val_accuracy")
    digits = len(quality.value.partition(".")[2])
    assert quality.value == f"{fmean(values):.{digits}f}"
    assert quality.error == f"± {stdev(values):.{digits}f}"
    assert quality.detail == "mean ± standard deviation over 3 seeds"
    latency = tile(head, "latency")
    assert finalist.latency is not None
    low, high = (bound * 2.4 for bound in finalist.latency.ratio_interval)
    assert latency.value == f"{finalist.measured['latency_ms']:.3f} ms"
    assert latency.detail == f"95 % interval {low:.3f} – {high:.3f} ms"
    assert tile(head, "parameters").value == f"{finalist.measured['parameters']:,.0f}"
    assert [tile.title for tile in head.tiles] == ["val_accuracy", "latency", "parameters", "test_accuracy"]


def test_each_tile_compares_with_the_present_and_the_rule(record: StudyRecord) -> None:
    index = next(i for i, finalist in enumerate(record.finalists) if not finalist.labels)
    for shown in of(recommending(record, index)).tiles:
        assert [words for words, _ in shown.against] == ["present counts", "rule of thumb"]


def test_the_present_is_not_compared_with_itself(record: StudyRecord) -> None:
    for shown in of(recommending(record, index_of(record, "present"))).tiles:
        assert [words for words, _ in shown.against] == ["rule of thumb"]


def test_one_seed_has_no_noise_to_show(make_record: MakeRecord) -> None:
    quality = tile(of(recommending(make_record(seeds=1), 0)), "val_accuracy")
    assert (quality.error, quality.detail) == ("", "one seed, so its noise is unknown")


def test_a_study_without_a_feasible_plan_says_how_near_it_came(make_record: MakeRecord) -> None:
    record = recommending(make_record(limit_ms=1.0, trials=8), None, "no finalist meets every constraint")
    assert record.latency_range is not None
    fastest = min(profile.ratio_interval for profile in record.latency_range.profiles.values())
    low, high = (bound * 2.4 for bound in fastest)
    assert of(record) == Headline(
        title="No plan can be recommended",
        sentences=(
            "No finalist meets every constraint.",
            "Constraints: latency_ms ≤ 1.25 × present.",
            f"The fastest plan of the profile takes {low:.3f} – {high:.3f} ms; the limit is 1 ms.",
        ),
    )


def test_without_a_limit_there_is_no_distance_to_state(make_record: MakeRecord) -> None:
    record = replace(recommending(make_record(), None, "nothing"), limits={}, constraints={})
    assert of(record).sentences == ("Nothing.",)


def test_an_unfinished_study_says_how_far_it_is(make_record: MakeRecord) -> None:
    record = make_record(verified=False, trials=30)
    head = of(replace(record, trials=record.trials[:2], trials_asked=30))
    assert head == Headline(
        title="Nothing is recommended yet",
        sentences=(
            "2 trials trained of 30 asked for.",
            "A plan is recommended once the best ones have been retrained with new seeds.",
        ),
    )


def test_a_study_of_failures_says_so(partial: StudyRecord) -> None:
    head = of(partial)
    outcomes = {trial.outcome for trial in partial.trials}
    failures = {"diverged", "out_of_memory", "crashed"}
    assert (head.title == "No trial could be trained") == (bool(outcomes) and outcomes <= failures)
    assert all(sentence.endswith(".") for sentence in head.sentences)
