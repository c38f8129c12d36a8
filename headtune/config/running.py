"""How a study runs: the sections ``latency``, ``search``, ``verify`` and ``resources`` of a study file."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from headtune.config.section import Problem, Section
from headtune.config.values import AutoCount, Count, Number, Seconds, Text, later, refuse

_MODES = dict.fromkeys(("train_step", "decode"), "only forward is timed so far; write forward")


def _one_length(value: object) -> object:
    if isinstance(value, list):
        raise refuse("several sequence lengths are not available yet; write one number")
    return value


def _gpus(gpus: float) -> float:
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise refuse("must be 0, a share of one GPU such as 0.5, or a whole number of GPUs")
    return gpus


class LatencySection(Section):
    """How latency is measured."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] = "auto"
    threads: AutoCount = "auto"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    batch_size: Count = 32
    seq_len: Annotated[Count | None, BeforeValidator(_one_length)] = None
    mode: Annotated[Literal["forward"], later(_MODES)] = "forward"


class SearchSection(Section):
    """How long and how to search."""

    trials: Count = 40
    timeout: Seconds | None = None
    sampler: Literal["auto", "tpe", "gp", "nsga2", "random", "grid"] = "auto"
    epochs: Count = 10
    stop_early: bool = True


class VerifySection(Section):
    """How finalists are judged."""

    top: Count = 5
    seeds: Annotated[int, Field(ge=0)] = 3


class ResourcesSection(Section):
    """What one trial gets, and where trials run."""

    cpus: Count = 1
    gpus: Annotated[Number, AfterValidator(_gpus)] = 0
    concurrent: AutoCount = "auto"
    cluster: Text = "local"
    executor: Literal["ray", "inline"] = "ray"

    def problems(self) -> Iterable[Problem]:
        """What the inline executor cannot do."""
        if self.executor == "inline" and self.concurrent not in ("auto", 1):
            yield ("concurrent",), f"must be 1 or auto under `executor: inline` (got {self.concurrent})"
        if self.executor == "inline" and self.cluster != "local":
            yield ("cluster",), "must be local under `executor: inline`"
