"""A model's tensors in a safetensors file: each once, with the names that share it, and all their values exact.

Buffers that ``state_dict`` leaves out are written too, under names that begin with ``~``: a cast of the model may have
changed them for good.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from headtune.errors import StorageError, in_words

_UNLISTED = "~"
_FORMAT = {"format": "pt"}
_ALIGNMENT = 64
"""Of memory that PyTorch allocates, in bytes; elsewhere its kernels add in another order."""

_CHANGED = "did not come back as it was saved: look at the hooks of state_dict and load_state_dict in"


def write_tensors(model: nn.Module, file: Path, *, only_unlisted: bool = False) -> None:
    """Write the model's tensors.

    Args:
        model: stays as it is.
        file: is written over.
        only_unlisted: leave out what is in ``state_dict``.

    Raises:
        StorageError: names everything that is no tensor, or has no values here.
    """
    found = _named(model, listed=not only_unlisted)
    problems = [problem for name, value in found.items() if (problem := _why_not_written(name, value)) is not None]
    if problems:
        raise StorageError(*problems)
    first: dict[object, str] = {}
    aliases: dict[str, str] = {}
    kept: dict[str, Tensor] = {}
    for name, value in found.items():
        assert isinstance(value, Tensor)
        whole = first.setdefault(_identity(value), name)
        if whole != name:
            aliases[name] = whole
        else:
            kept[name] = _alone(value.detach())
    save_file(kept, str(file), metadata=_FORMAT | aliases)


def read_tensors(model: nn.Module, file: Path) -> None:
    """Give the model's tensors the values and types in the file, which must have exactly these tensors.

    Tensors without values (meta device) come to be on the CPU.

    Raises:
        StorageError: names every tensor that does not fit, or that the model changes as it takes it.
    """
    saved = _read(file)
    listed = {name: tensor for name, tensor in saved.items() if not name.startswith(_UNLISTED)}
    problems = [*_misfits(model, listed), *_other_ties(model, listed)]
    if problems:
        raise StorageError(*(f"{file.parent}: {problem}" for problem in problems))
    _prepare(model, saved)
    if listed:
        model.load_state_dict(listed)
    changed = [
        name
        for name, tensor in model.state_dict().items()
        if name not in listed or not _same_bits(tensor, listed[name])
    ]
    if changed:
        raise StorageError(*(f"{file.parent}: {name} {_CHANGED} {type(model).__name__}" for name in changed))


def cast_as_saved(model: nn.Module, files: Iterable[Path]) -> nn.Module:
    """The model with the type of each tensor as in these safetensors files, where names are the same.

    Raises:
        StorageError: a file cannot be read.
    """
    for file in files:
        _prepare(model, _read(file))
    for tensor in (*model.parameters(), *model.buffers()):
        if not tensor.is_meta and tensor.data_ptr() % _ALIGNMENT:
            tensor.data = tensor.detach().clone()
    return model


def check_readable(files: Iterable[Path]) -> None:
    """Refuse files that are missing or cut off.

    Raises:
        StorageError: names every such file.
    """
    problems: list[str] = []
    for file in files:
        try:
            with _opened(file):
                pass
        except StorageError as error:
            problems += error.problems
    if problems:
        raise StorageError(*problems)


def _read(file: Path) -> dict[str, Tensor]:
    """The tensors of a file under all their names."""
    with _opened(file) as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dict
        aliases = opened.metadata() or {}
    # Other tools leave words of their own among the aliases.
    return tensors | {name: tensors[whole] for name, whole in aliases.items() if whole in tensors}


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safe_open(str(file), "pt") as opened:
            yield opened
    except Exception as error:  # what is damaged can raise anything
        raise StorageError(f"{file}: the tensors cannot be read ({in_words(error)}); save the model again") from error


def _named(model: nn.Module, *, listed: bool = True) -> dict[str, object]:
    """Everything in ``state_dict``, if *listed*, and the buffers that are not."""
    found: dict[str, object] = dict(model.state_dict(keep_vars=True)) if listed else {}
    return found | {_UNLISTED + name: buffer for name, buffer in _unlisted(model)}


def _unlisted(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for path, module in model.named_modules():
        for name in sorted(module._non_persistent_buffers_set):
            buffer = module._buffers.get(name)
            if buffer is not None:
                yield f"{path}.{name}" if path else name, buffer


def _why_not_written(name: str, value: object) -> str | None:
    if not isinstance(value, Tensor):
        return f"{name} is a {type(value).__name__}, and only tensors can be saved; quantise after loading instead"
    if value.is_meta:
        return f"{name} has no values: it is on the meta device, or offloaded; load the model first"
    if value.layout != torch.strided or type(value) not in (Tensor, nn.Parameter, nn.Buffer):
        return f"{name} is a {type(value).__name__} of the layout {value.layout}; gather it into a plain tensor first"
    return None


def _identity(tensor: Tensor) -> object:
    """Equal for tensors that are one and the same memory."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    start = (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (*start, tensor.dtype, tuple(tensor.shape), tensor.stride())


def _alone(tensor: Tensor) -> Tensor:
    """The tensor, in memory of its own where it is a part of another."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole and tensor.is_contiguous() else tensor.clone(memory_format=torch.contiguous_format)


def _misfits(model: nn.Module, saved: Mapping[str, Tensor]) -> Iterator[str]:
    present = model.state_dict(keep_vars=True)
    name_of = type(model).__name__
    for name, tensor in saved.items():
        if name not in present:
            yield f"{name} is there, but {name_of} has no such tensor"
        elif tensor.shape != present[name].shape:
            yield f"{name} is {tuple(tensor.shape)}, but {tuple(present[name].shape)} in {name_of}"
        elif present[name].requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
            yield f"{name} is {tensor.dtype}, but a parameter that is trained in {name_of}"
    yield from (f"{name} is not there, but {name_of} has it" for name in present if name not in saved)


def _other_ties(model: nn.Module, saved: Mapping[str, Tensor]) -> Iterator[str]:
    """Tensors that are one in the file and two in the model, or the other way round."""
    present = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if name in saved}
    apart: dict[int, tuple[str, object]] = {}
    together: dict[object, tuple[str, int]] = {}
    for name, tensor in present.items():
        here, there = _identity(tensor), id(saved[name])
        other, elsewhere = apart.setdefault(there, (name, here))
        if elsewhere != here:
            yield f"{name} and {other} were saved as one tensor; let build tie them"
        other, elsewhere_id = together.setdefault(here, (name, there))
        if elsewhere_id != there:
            yield f"{name} and {other} are one tensor here, but were saved as two; let build keep them apart"


def _prepare(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give the model's tensors the saved types, memory where they have none, and the unlisted buffers their values."""
    made: dict[int, Tensor] = {}
    # Hooks of state_dict may rename what it lists.
    names = {id(tensor): name for name, tensor in model.state_dict(keep_vars=True).items()}
    for path, module in model.named_modules():
        for held in (module._parameters, module._buffers):
            for name, old in held.items():
                full = f"{path}.{name}" if path else name
                tensor = saved.get(names.get(id(old), full))
                if name in module._non_persistent_buffers_set and (value := saved.get(_UNLISTED + full)) is not None:
                    held[name] = _fresh(value, value, "cpu" if old is None or old.is_meta else old.device)
                elif old is not None and tensor is not None and _unlike(old, tensor):
                    held[name] = made.setdefault(id(old), _like(old, tensor))


def _like(old: Tensor, saved: Tensor) -> Tensor:
    """The saved tensor in the old one's place: the same object, but where that has no memory."""
    if old.is_meta:
        new = _fresh(saved, old, "cpu")
        return nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new
    old.data = _fresh(saved, old, old.device)
    return old


def _unlike(old: Tensor, saved: Tensor) -> bool:
    return old.shape == saved.shape and (old.is_meta or old.dtype != saved.dtype)


def _fresh(saved: Tensor, like: Tensor, device: torch.device | str) -> Tensor:
    """The saved values in memory of their own, aligned as PyTorch aligns it and laid out as in *like*."""
    return torch.empty_like(like.detach(), dtype=saved.dtype, device=device).copy_(saved)


def _same_bits(left: Tensor, right: Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    ours, theirs = (tensor.detach().cpu().contiguous().flatten().view(torch.uint8) for tensor in (left, right))
    return torch.equal(ours, theirs)
