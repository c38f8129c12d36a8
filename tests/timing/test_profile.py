import json
from dataclasses import replace

from headtune.timing import LatencyProfile, LatencyProtocol


def profile_of_everything() -> LatencyProfile:
    return LatencyProfile(
        protocol=LatencyProtocol(device="cpu", threads=2, dtype="bfloat16", batch_size=3, seq_len=7),
        median_ms=1.25,
        p90_ms=1.5,
        interval_ms=(1.125, 1.375),
        ratio=0.5,
        ratio_interval=(0.25, 0.75),
        reference_median_ms=2.5,
        samples=42,
        calls_per_sample=3,
        settled=True,
        contended=True,
        device_name="a device",
        versions={"torch": "9.9"},
        doubts=("noise", "neighbours"),
        card={"sm_clock_mhz": 1980},
    )


def test_json_and_back() -> None:
    profile = profile_of_everything()
    assert LatencyProfile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


def test_json_holds_every_field_by_its_name() -> None:
    data = profile_of_everything().to_json()
    assert set(data) == set(LatencyProfile.__dataclass_fields__)
    assert data["protocol"]["dtype"] == "bfloat16"


def test_interval_is_the_ratios() -> None:
    assert profile_of_everything().interval == (0.25, 0.75)


def test_a_profile_shows_what_was_timed_and_what_to_doubt() -> None:
    profile = profile_of_everything()
    assert repr(profile) == "LatencyProfile(1.25 ms, 0.5 × the reference, p90 1.5 ms, 42 samples, 2 doubts)"
    alone = replace(profile, reference_median_ms=None, doubts=())
    assert repr(alone) == "LatencyProfile(1.25 ms, p90 1.5 ms, 42 samples)"


def test_a_profile_from_before_doubts_and_cards_were_kept_is_read() -> None:
    data = profile_of_everything().to_json()
    older = {name: value for name, value in data.items() if name not in ("doubts", "card")}
    assert LatencyProfile.from_json(older) == replace(profile_of_everything(), doubts=(), card={})
