"""Head counts as a model's modules write them down: what tells two architectures with equal tensors apart."""

from collections.abc import Iterator, Mapping

from torch import nn

from headtune.surgery.adapters.attributes import fields_of, is_config
from headtune.surgery.adapters.names import names_a_quantity
from headtune.surgery.saving.edits import is_mark


def declared_counts(model: nn.Module) -> dict[str, int]:
    """Every whole number of a module or of its configuration that is called like a head count, by path.

    A configuration that several modules hold is listed once.
    """
    seen: set[int] = set()
    found: dict[str, int] = {}
    for path, module in model.named_modules():
        if type(module).__module__.startswith("torch.nn.") and not isinstance(module, nn.MultiheadAttention):
            continue
        for name, value in _numbers(module, seen):
            found[f"{path}.{name}" if path else name] = value
    return found


def _numbers(module: nn.Module, seen: set[int]) -> Iterator[tuple[str, int]]:
    yield from _counts(vars(module))
    for name, value in vars(module).items():
        if is_config(name, value) and not is_mark(name) and id(value) not in seen:
            seen.add(id(value))
            yield from ((f"{name}.{field}", number) for field, number in _counts(fields_of(value)))


def _counts(values: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if type(value) is int and names_a_quantity(name):
            yield name, value
