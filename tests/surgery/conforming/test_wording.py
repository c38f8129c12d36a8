from headtune.heads import AttentionSite, HeadCount, HeadPlan
from headtune.surgery.conforming.wording import counts_in_words, sites_in_words


def site(path: str, role: str, heads: int) -> AttentionSite:
    return AttentionSite(path=path, role=role, embed_dim=24, num_heads=heads, num_kv_heads=heads, head_dim=6)


def test_sites_are_counted_by_role_and_count() -> None:
    sites = [site("a", "self", 4), site("b", "cross", 4), site("c", "self", 4), site("d", "self", 2)]
    assert sites_in_words(sites) == "2 self of 4x6, 1 cross of 4x6, 1 self of 2x6"


def test_each_count_of_a_plan_is_named_once() -> None:
    plan = HeadPlan.of({"a": HeadCount(4, 2, 6), "b": HeadCount(4, 4, 6), "c": HeadCount(4, 2, 6)})
    assert counts_in_words(plan) == "4/2x6, 4x6"
