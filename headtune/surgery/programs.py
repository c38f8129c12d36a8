"""Models as programs that run without Python's classes: exported, loaded again, and compared with the model."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from headtune.errors import MissingExtraError, SurgeryError, in_words
from headtune.surgery.inputs import Inputs, call, check_inputs, own_copy
from headtune.surgery.outputs import returned_difference
from headtune.surgery.snapshot import evaluating
from headtune.surgery.writing import values_kept

ProgramFormat = Literal["torch", "onnx"]
"""``torch.export``'s own, or ONNX."""

PROGRAM_FILES: Mapping[ProgramFormat, str] = {"torch": "model.pt2", "onnx": "model.onnx"}
"""What the file of each format is called."""

_ONNX = ("onnx", "onnxscript", "onnxruntime")


def check_format(kind: ProgramFormat) -> None:
    """Make sure that programs of a format can be written and run here.

    Raises:
        MissingExtraError: it needs packages that are not installed.
    """
    missing = [name for name in _ONNX if kind == "onnx" and find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"ONNX needs {', '.join(missing)}: pip install 'headtune[onnx]'")


def write_program(model: nn.Module, inputs: Inputs, folder: Path, kind: ProgramFormat) -> Path:
    """Export *model*, and make sure that the file runs and returns what the model does.

    Sizes that the model does not fix, such as that of the batch, stay free where the exporter can leave them so.

    Args:
        model: exported in eval mode; left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        folder: is made; gets ``model.pt2`` or ``model.onnx``, over an earlier one.
        kind: the format.

    Returns:
        The file.

    Raises:
        SurgeryError: the model cannot be exported, or the program computes something else; no file is written then.
        MissingExtraError: as :func:`check_format` does.
    """
    check_format(kind)
    check_inputs(inputs)
    with evaluating(model), torch.no_grad():
        with values_kept(model):
            expected = call(model, inputs)
        return _written(model, inputs, expected, folder, kind)


def _written(model: nn.Module, inputs: Inputs, expected: object, folder: Path, kind: ProgramFormat) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / PROGRAM_FILES[kind]
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:
        file = Path(unfinished) / target.name
        run = _trying(model, kind, "cannot be exported", lambda: _EXPORTERS[kind](model, inputs, file))
        made = _trying(model, kind, "was exported, but the program does not run", lambda: run(inputs))
        apart = returned_difference(made, expected)
        if apart is not None:
            raise SurgeryError(f"{type(model).__name__} was exported ({kind}), but of the program {apart}")
        file.replace(target)
    return target


def _trying(model: nn.Module, kind: str, failed: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
    try:
        return work()
    except (SurgeryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # exporters raise whatever they meet
        raise SurgeryError(f"{type(model).__name__} {failed} ({kind}): {in_words(error)}") from error


def _export_torch(model: nn.Module, inputs: Inputs, file: Path) -> Callable[[Inputs], object]:
    program = _traced(model, inputs)
    torch.export.save(program, file)
    loaded = torch.export.load(file).module()
    return lambda inputs: call(loaded, inputs)


def _export_onnx(model: nn.Module, inputs: Inputs, file: Path) -> Callable[[Inputs], object]:
    import onnxruntime

    made = torch.onnx.export(_traced(model, inputs), dynamo=True, verbose=False)
    assert made is not None
    made.save(file, external_data=False)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def run(inputs: Inputs) -> Sequence[Tensor]:
        names = [one.name for one in session.get_inputs()]
        given = [leaf for leaf in pytree.tree_leaves(_values(inputs)) if isinstance(leaf, Tensor)]
        if isinstance(inputs, Mapping) and set(names) <= set(inputs):
            given = [leaf for name in names if isinstance(leaf := inputs[name], Tensor)]
        arrays = {name: leaf.detach().cpu().numpy() for name, leaf in zip(names, given, strict=True)}
        return [torch.from_numpy(array) for array in session.run(None, arrays)]

    return run


_EXPORTERS: Mapping[str, Callable[[nn.Module, Inputs, Path], Callable[[Inputs], object]]] = {
    "torch": _export_torch,
    "onnx": _export_onnx,
}


def _traced(model: nn.Module, inputs: Inputs) -> torch.export.ExportedProgram:
    """The model's program, with every size free that it does not fix."""
    given = own_copy(inputs)
    args, kwargs = (given, {}) if isinstance(given, tuple) else ((), dict(given))
    free = pytree.tree_map(_free, _values(inputs))
    return torch.export.export(model, args, kwargs, dynamic_shapes=free)


def _values(inputs: Inputs) -> object:
    return inputs if isinstance(inputs, tuple) else dict(inputs)


def _free(leaf: object) -> object:
    return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, Tensor) else None
