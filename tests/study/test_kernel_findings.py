"""Kernels and head dimensions, in words."""

from headtune.heads import HeadCount, HeadPlan
from headtune.study.kernel_findings import alignment_findings, few, kernel_findings

FLASH, NATIVE = ("flash for the CPU",), ("native encoder layer",)


def test_one_kernel_everywhere() -> None:
    kernels = {"present": {"a": FLASH, "b": FLASH}, "largest": {"a": FLASH, "b": FLASH}}
    assert list(kernel_findings(kernels)) == ["attention kernel: flash for the CPU at every site"]


def test_sites_that_differ() -> None:
    kernels = {
        "present": {"e.0.x": FLASH, "e.1.x": FLASH, "d": ()},
        "largest": {"e.0.x": FLASH, "e.1.x": FLASH, "d": ()},
    }
    assert list(kernel_findings(kernels)) == ["attention kernel: flash for the CPU at e.*.x; none that is known at d"]


def test_plans_that_differ() -> None:
    kernels = {"smallest": {"e.0.x": FLASH, "e.1.x": FLASH}, "present": {"e.0.x": NATIVE, "e.1.x": FLASH}}
    assert list(kernel_findings(kernels)) == [
        "attention kernel: flash for the CPU (smallest), native encoder layer and flash for the CPU (present) at every "
        "site; where plans differ in it, their latencies differ by more than heads"
    ]


def test_attention_that_is_written_out() -> None:
    told = list(kernel_findings({"present": {"a": ("written out",)}}))
    assert told == [
        "attention kernel: written out at every site",
        "attention that is written out stores a score for each head and pair of positions: "
        "F.scaled_dot_product_attention computes the same in one kernel, where more heads cost less",
    ]


def test_head_dimensions_that_do_not_fit() -> None:
    plans = {
        name: HeadPlan.of({"e.0.x": HeadCount(1, 1, 12), "e.1.x": HeadCount(1, 1, 12), "d": HeadCount(1, 1, 32)})
        for name in ("rule", "largest")
    }
    unaligned = {"rule": {"e.0.x": 8, "e.1.x": 8}, "largest": {"e.0.x": 8, "e.1.x": 8, "d": 64}}
    assert list(alignment_findings(plans, unaligned, "cuda:0")) == [
        "head_dim 12 at e.*.x (rule, largest) is no multiple of 8: kernels pad it, or a slower one runs",
        "head_dim 32 at d (largest) is no multiple of 64: tiles of tensor cores are left part empty",
    ]
    assert next(alignment_findings(plans, unaligned, "cpu")).endswith(
        "is no multiple of 8: vector units, which take that many features at a time, are left part empty"
    )
    assert list(alignment_findings(plans, {"rule": {}, "largest": {}}, "cpu")) == []


def test_many_names() -> None:
    assert few(("",)) == "(model)"
    assert few("abcd") == "a, b, c, d"
    assert few("abcde") == "a, b, c and 2 more"
