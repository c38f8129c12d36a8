"""How a study runs: the sections ``latency``, ``search``, ``verify`` and ``resources`` of a study file."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

import headtune.rules as rules
from headtune.config.section import Problem, Section
from headtune.config.values import AutoCount, Count, Number, Seconds, Text, kept, later, refuse

_MODES = dict.fromkeys(("train_step", "decode"), "only forward is timed so far; write forward")


def _one_length(value: object) -> object:
    if isinstance(value, list):
        raise refuse("several sequence lengths are not available yet; write one number")
    return value


def _threads(value: object) -> str:
    return "" if value == "auto" else rules.at_least(1, rules.MOST_THREADS)(value)


class LatencySection(Section):
    """How latency is measured."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] = "auto"
    threads: Annotated[AutoCount, AfterValidator(kept(_threads))] = "auto"
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
    gpus: Annotated[Number, AfterValidator(kept(rules.gpus))] = 0
    concurrent: AutoCount = "auto"
    cluster: Text = "local"
    executor: Literal["ray", "inline"] = "ray"

    def problems(self) -> Iterable[Problem]:
        """What the inline executor cannot do."""
        return rules.inline(self.executor, self.concurrent, self.cluster)
