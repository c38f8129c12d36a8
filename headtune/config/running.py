"""How a study runs: the sections ``latency``, ``search``, ``verify``, ``prune`` and ``resources`` of a study file."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag

import headtune.rules as rules
from headtune.config.section import Problem, Section
from headtune.config.values import LIST, WORD, AutoCount, Count, Number, Seconds, Text, kept, kind


def _threads(value: object) -> str:
    return "" if value == "auto" else rules.at_least(1, rules.MOST_THREADS)(value)


def _shape(value: object) -> str:
    return LIST if isinstance(value, list) else WORD


Lengths = Annotated[
    Annotated[Count, Tag(WORD)] | Annotated[list[Count], AfterValidator(kept(rules.lengths)), Tag(LIST)],
    kind("a length, or a list of lengths", _shape),
]


class LatencySection(Section):
    """How latency is measured."""

    device: Annotated[str, AfterValidator(kept(rules.device))] = "auto"
    threads: Annotated[AutoCount, AfterValidator(kept(_threads))] = "auto"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    autocast: Literal["float16", "bfloat16"] | None = None
    batch_size: Count = 32
    seq_len: Lengths | None = None
    mode: Literal["forward", "train_step", "decode"] = "forward"
    compile: bool = False
    cuda_graphs: bool = False
    precision: Annotated[Number, AfterValidator(kept(rules.positive))] = 0.02
    max_seconds: Annotated[Number, AfterValidator(kept(rules.positive))] = 1.5

    @property
    def lengths(self) -> Sequence[int | None]:
        """The sequence lengths that are timed, ascending."""
        return self.seq_len if isinstance(self.seq_len, list) else (self.seq_len,)

    def problems(self) -> Iterable[Problem]:
        """What cannot be asked together."""
        return rules.timing(
            self.device, self.mode, dtype=self.dtype, autocast=self.autocast, cuda_graphs=self.cuda_graphs
        )


class SearchSection(Section):
    """How long and how to search."""

    trials: Count = 40
    timeout: Seconds | None = None
    sampler: Literal["auto", "ehvi", "tpe", "gp", "nsga2", "random", "grid"] = "auto"
    epochs: Count = 10
    stop_early: bool = True
    evaluator: Literal["train", "supernet"] = "train"


class VerifySection(Section):
    """How finalists are judged."""

    top: Count = 5
    seeds: Annotated[int, Field(ge=0)] = 3
    max_seeds: AutoCount = "auto"

    def problems(self) -> Iterable[Problem]:
        """Fewer seeds at most than each one gets."""
        return rules.most_seeds(self.seeds, None if self.max_seeds == "auto" else self.max_seeds)


class PruneSection(Section):
    """How far `headtune prune` takes a trained model, and in which steps."""

    heads: Count | None = None
    latency_ratio: Annotated[Number, AfterValidator(kept(rules.PRUNE_GOALS["latency_ratio"]))] | None = None
    quality_loss: Annotated[Number, AfterValidator(kept(rules.PRUNE_GOALS["quality_loss"]))] | None = None
    share: Annotated[Number, AfterValidator(kept(rules.share))] = 0.1
    order: Literal["importance", "once", "random"] = "importance"
    steps: Annotated[int, Field(ge=0)] = 0
    lr: Annotated[Number, AfterValidator(kept(rules.positive))] = 3e-4
    alpha: Annotated[Number, AfterValidator(kept(rules.fraction))] = 0.5
    temperature: Annotated[Number, AfterValidator(kept(rules.positive))] = 2.0
    match: Literal["auto", "logits", "states"] = "auto"

    @property
    def goals(self) -> dict[str, int | float]:
        """The targets that are given."""
        return {name: getattr(self, name) for name in rules.PRUNE_GOALS if getattr(self, name) is not None}

    def problems(self) -> Iterable[Problem]:
        """More than one goal."""
        return rules.one_goal(list(self.goals))


class ResourcesSection(Section):
    """What one trial gets, and where trials run."""

    cpus: Count = 1
    gpus: Annotated[Number, AfterValidator(kept(rules.gpus))] = 0
    concurrent: AutoCount = "auto"
    cluster: Text = "local"
    node: Text | None = None
    accelerator: Text | None = None
    executor: Literal["ray", "inline"] = "ray"

    def problems(self) -> Iterable[Problem]:
        """What the inline executor cannot do."""
        return rules.inline(self.executor, self.concurrent, self.cluster, node=self.node, accelerator=self.accelerator)
