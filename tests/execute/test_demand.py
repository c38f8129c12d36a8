"""What a trial asks, in words and as Ray's resources."""

import pytest

from headtune.execute.demand import SHARE, Demand


@pytest.mark.parametrize(
    ("demand", "words", "marks"),
    [
        (Demand(), "1 CPU and 0 GPUs", {}),
        (Demand(cpus=4, gpus=0.5), "4 CPUs and 0.5 GPUs", {}),
        (Demand(node="10.0.0.1"), "1 CPU and 0 GPUs on 10.0.0.1", {"node:10.0.0.1": SHARE}),
        (
            Demand(gpus=1, accelerator="A100"),
            "1 CPU and 1 GPU beside accelerator A100",
            {"accelerator_type:A100": SHARE},
        ),
        (
            Demand(node="10.0.0.1", accelerator="A100"),
            "1 CPU and 0 GPUs on 10.0.0.1 beside accelerator A100",
            {"node:10.0.0.1": SHARE, "accelerator_type:A100": SHARE},
        ),
    ],
)
def test_a_demand_says_how_much_and_where(demand: Demand, words: str, marks: dict[str, float]) -> None:
    assert (str(demand), demand.marks, demand.placed) == (words, marks, bool(marks))
