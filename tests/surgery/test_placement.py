"""Numbers that were sent through say where heads lie, in any layout.

B batch, H heads, T queries, D features per head.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from headtune.surgery.placement import Placement, Placer
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe

B, H, T, D = 2, 3, 5, 4


def numbered(leading: tuple[int, ...]) -> Tensor:
    """``l * T + t`` for every feature, as attention with these leading dimensions puts them out."""
    counted = torch.arange(B * H * T, dtype=torch.float64).reshape(*leading, T, 1)
    return counted.expand(*leading, T, D)


LAYOUTS = {
    "batch first": numbered((B, H)).transpose(1, 2).reshape(B * T, H * D),
    "time first": numbered((B, H)).permute(2, 0, 1, 3).reshape(T * B, H * D),
    "features before heads": numbered((B, H)).permute(0, 2, 3, 1).reshape(B * T, D * H),
    "heads first": numbered((H, B)).permute(1, 2, 0, 3).reshape(B * T, H * D),
    "merged": numbered((B * H,)).reshape(B, H, T, D).transpose(1, 2).reshape(B * T, H * D),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_maps_and_outputs_are_found_in_every_layout(name: str) -> None:
    read = LAYOUTS[name]
    found = Placement.of(read, H, T)
    assert found is not None
    assert (found.maps.shape, found.positions.shape, found.features.shape) == ((B, H), (B, T), (H, D))
    outputs = found.arranged(read)
    expected = found.maps[:, None, :, None] * T + torch.arange(T)[:, None, None]
    assert torch.equal(outputs, expected.double().expand(B, T, H, D))
    first = torch.arange(B * H).reshape(H, B).T if name == "heads first" else torch.arange(B * H).reshape(B, H)
    assert torch.equal(found.maps, first)
    assert torch.equal(found.numbers(T), read)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda read: read * 2,
        lambda read: read.flip(-1) + read,
        lambda read: read + 0.25,
        lambda read: torch.cat([read[:1], read[:-1]]),
        lambda read: read[:, : H * D - 1],
        lambda read: read.mean(0).expand_as(read),
    ],
    ids=["scaled", "mixed", "shifted", "repeated", "cut", "averaged"],
)
def test_numbers_that_came_through_changed_are_no_placement(spoil: object) -> None:
    assert callable(spoil)
    assert Placement.of(spoil(LAYOUTS["batch first"]), H, T) is None


def test_another_number_of_heads_is_no_placement() -> None:
    assert Placement.of(LAYOUTS["batch first"], H + 1, T) is None


@pytest.mark.parametrize("name", ["lucid", "merged", "einsum", "nano fused sdpa", "grouped sdpa", "annotated"])
def test_a_model_shows_where_its_heads_lie(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name, 4, 2 if "grouped" in name else 4).bfloat16(), zoo.inputs(name)
    recorder = Recorder(model)
    placer = Placer(recorder)
    with torch.no_grad():
        observe(model, tuple(tensor.bfloat16() for tensor in inputs), recorder, placer)
    assert sorted(placer.found) == [0, 1]
    for placement in placer.found.values():
        assert placement.maps.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert placement.features.tolist() == [list(range(head * 6, head * 6 + 6)) for head in range(4)]
