from headtune.search.seeds import derive, trial_seed


def test_seeds_follow_from_study_seed_and_repeat_alone() -> None:
    assert trial_seed(0, 0) == trial_seed(0, 0)
    found = {trial_seed(seed, repeat) for seed in range(20) for repeat in range(20)}
    assert len(found) == 400
    assert all(0 <= seed < 2**31 for seed in found)


def test_seeds_are_the_same_on_every_machine() -> None:
    # Pinned: another value would make a continued study train with other seeds than it began with.
    assert trial_seed(0, 0) == 2115075538
    assert derive("ask", 0, 5) == 1873960868


def test_parts_are_not_run_together() -> None:
    assert derive(1, 23) != derive(12, 3)
    assert derive("1") != derive(1)
