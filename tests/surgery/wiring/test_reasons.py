from headtune.surgery.wiring import reasons


def test_every_reason_says_what_to_do_instead() -> None:
    written = [value for name, value in vars(reasons).items() if name.isupper() and name != "KEEP"]
    written += [reasons.no_projection("keys"), reasons.mixed("keys", "k.weight"), reasons.changed_before("out.weight")]
    assert len(written) == 9
    for reason in written:
        _, _, remedy = reason.rpartition("; ")
        assert remedy.startswith(("keep", "let", "load", "give", "remove")), reason


def test_a_weight_without_a_name_is_still_a_projection() -> None:
    assert reasons.changed_before("").startswith("its heads are gated, normalised or mixed before a projection reads")
