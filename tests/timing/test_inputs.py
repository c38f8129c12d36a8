from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from headtune.errors import InputError
from headtune.timing import LatencyProtocol
from headtune.timing.inputs import leaves, placed, ready_inputs

PROTOCOL = LatencyProtocol(batch_size=3, seq_len=5)
CPU = torch.device("cpu")


class Batch(NamedTuple):
    tokens: torch.Tensor
    weight: torch.Tensor


def test_a_callable_gets_the_protocols_sizes() -> None:
    asked: list[tuple[int, int | None]] = []

    def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
        asked.append((batch_size, seq_len))
        return (torch.zeros(batch_size, 9),)

    arguments, protocol = ready_inputs(inputs, PROTOCOL)
    assert asked == [(3, 5)]
    assert isinstance(arguments, tuple)
    assert isinstance(arguments[0], torch.Tensor)
    assert arguments[0].shape == (3, 9)
    assert protocol == PROTOCOL


@pytest.mark.parametrize(
    ("shape", "batch_size", "seq_len"),
    [((8,), 8, 5), ((8, 16), 8, 16), ((8, 16, 4), 8, 16), ((8, 3, 32, 32), 8, 5), ((), 3, 5)],
)
def test_ready_arguments_say_their_sizes(shape: tuple[int, ...], batch_size: int, seq_len: int) -> None:
    for inputs in ((torch.zeros(shape),), {"x": torch.zeros(shape)}):
        _, protocol = ready_inputs(inputs, PROTOCOL)
        assert (protocol.batch_size, protocol.seq_len) == (batch_size, seq_len)


def test_the_first_tensor_decides_wherever_it_is_nested() -> None:
    _, protocol = ready_inputs((None, {"pair": [torch.zeros(6, 2), torch.zeros(9)]}), PROTOCOL)
    assert protocol.batch_size == 6


def test_any_mapping_with_names_is_keyword_arguments() -> None:
    arguments, _ = ready_inputs(OrderedDict(x=torch.zeros(2)), PROTOCOL)
    assert type(arguments) is dict


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.zeros(2), "got a Tensor; wrap it as (tensor,)"),
        ([torch.zeros(2)], "got a list; return one of these"),
        (None, "got a NoneType; return one of these"),
        ({0: torch.zeros(2)}, "got a mapping with keys that are no names; return one of these"),
        (nn.Identity(), "got a Identity; return one of these"),
        (lambda batch_size, seq_len: torch.zeros(batch_size), "got a Tensor; wrap it as (tensor,)"),
    ],
)
def test_what_is_no_arguments_is_refused(inputs: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        ready_inputs(inputs, PROTOCOL)  # type: ignore[arg-type]
    expected = "inputs: expected a tuple of positional or a dict of keyword arguments"
    assert str(caught.value) == f"{expected}, {message}"


def test_only_floating_tensors_are_cast_and_the_nest_keeps_its_types() -> None:
    batch, mask = Batch(torch.zeros(2, dtype=torch.long), torch.ones(2)), torch.ones(1).bool()
    nest = (batch, [torch.ones(1)], {"mask": mask}, "s")
    cast = placed(nest, CPU, torch.bfloat16)
    assert isinstance(cast, tuple)
    first, listed, named, text = cast
    assert isinstance(first, Batch)
    assert [t.dtype for t in leaves(cast)] == [torch.long, torch.bfloat16, torch.bfloat16, torch.bool]
    assert (type(listed), type(named), text) == (list, dict, "s")
    assert [t.dtype for t in leaves(nest)] == [torch.long, torch.float32, torch.float32, torch.bool]


def test_a_nest_without_tensors_is_passed_on_as_it_is() -> None:
    size = torch.zeros(2, 3).shape
    assert placed(size, CPU, torch.float16) is size


def test_leaves_come_in_order() -> None:
    one, two, three = (torch.full((), float(i)) for i in (1, 2, 3))
    assert [t.item() for t in leaves(({"a": one}, [two, (three,)], 7))] == [1, 2, 3]
