"""What a plain value may be, said once for study files and for Python.

Each rule takes a value and says what it must be, such as ``must be at least 1``; nothing where it is.
"""

import keyword
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from pathlib import PurePath
from typing import TypeGuard

Rule = Callable[[object], str]
Told = tuple[tuple[str | int, ...], str]
"""What a problem is about, within the value that was asked, and the problem."""

LAST_SEED = 2**32 - 1
"""NumPy takes no larger one."""

MOST_THREADS = 1024
"""More are a slip of the pen, and would stall the machine."""


def broken(values: Mapping[str, tuple[object, Rule]]) -> list[str]:
    """One problem for each named value that breaks its rule: the name, the rule, what came."""
    said = {name: rule(value) for name, (value, rule) in values.items()}
    return [
        f"{name}: {said[name]}{came(value) if said[name].startswith('must') else ''}"
        for name, (value, _) in values.items()
        if said[name]
    ]


def came(value: object) -> str:
    """What came, to end a sentence with."""
    return f" (got {value!r})" if len(repr(value)) <= 60 else f" (got {type(value).__name__} {repr(value)[:40]}…)"


def optional(rule: Rule) -> Rule:
    """The same rule, which ``None`` keeps too."""
    return lambda value: "" if value is None else rule(value)


def sentences(told: Sequence[Told]) -> list[str]:
    """The problems as sentences that begin with what they are about."""
    return [": ".join(filter(None, (".".join(map(str, keys)), sentence))) for keys, sentence in told if sentence]


def one_of(known: Sequence[str]) -> Rule:
    """One of some words."""
    sentence = f"must be {', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else f"must be {known[0]}"
    return lambda value: "" if isinstance(value, str) and value in known else sentence


def a(kind: type | tuple[type, ...], expected: str) -> Rule:
    """A value of some type, which *expected* describes."""
    return lambda value: "" if isinstance(value, kind) else f"must be {expected}"


def each(kind: type, expected: str, least: int = 0) -> Rule:
    """A tuple of at least so many values of some type, which *expected* describes."""
    sentence = f"must be a list of {expected}"

    def rule(value: object) -> str:
        if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
            return sentence
        return "" if len(value) >= least else f"{sentence}, {least} at least"

    return rule


def truth(value: object) -> str:
    """``True`` or ``False``."""
    return "" if isinstance(value, bool) else "must be True or False"


def integer(value: object) -> str:
    """A whole number; neither ``True`` nor 1.0 is one."""
    return "" if type(value) is int else "must be a whole number"


def at_least(least: int, most: float = inf) -> Rule:
    """A whole number from *least* to *most*."""

    def rule(value: object) -> str:
        if type(value) is not int:
            return integer(value)
        if value < least:
            return f"must be at least {least}"
        return "" if value <= most else f"must be at most {most}"

    return rule


LAST_COUNT = 2**31 - 1
"""The whole numbers of every database go so far."""

count = at_least(1, LAST_COUNT)
"""A whole number of at least 1."""

seed = at_least(0, LAST_SEED)
"""A whole number that every random generator takes."""


def number(value: object) -> str:
    """A finite number."""
    return "" if _finite(value) else "must be a number"


def positive(value: object) -> str:
    """A finite number above 0."""
    return "" if _finite(value) and value > 0 else "must be a number above 0"


def share(value: object) -> str:
    """A number above 0, and at most 1."""
    return "" if _finite(value) and 0 < value <= 1 else "must be a number above 0 and at most 1"


def fraction(value: object) -> str:
    """A number from 0 to 1."""
    return "" if _finite(value) and 0 <= value <= 1 else "must be a number from 0 to 1"


def interval(value: object) -> str:
    """The ends of an interval of numbers above 0."""
    if isinstance(value, tuple) and len(value) == 2 and not any(map(positive, value)) and value[0] <= value[1]:
        return ""
    return "must be two numbers above 0, the smaller one first"


def gpus(value: object) -> str:
    """None, a share of one, or several whole ones."""
    if _finite(value) and value >= 0 and (value <= 1 or value == int(value)):
        return ""
    return "must be 0, a share of one GPU such as 0.5, or a whole number of GPUs"


def scalar(value: object) -> str:
    """Text, a finite number or a truth value."""
    return "" if isinstance(value, str | bool) or _finite(value) else "must be text, a number, true or false"


def path(value: object) -> str:
    """A path that a file system can have."""
    return "" if isinstance(value, PurePath) and _speakable(str(value)) else "must be a path"


def text(value: object) -> str:
    """Text that is not empty."""
    if not isinstance(value, str):
        return "must be text"
    return "" if value else "must not be empty"


def folder_name(value: object) -> str:
    """A name that a folder and a database can have everywhere."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value):
        return ""
    return "must be letters, digits, '.', '_' and '-', at most 100: it names a folder"


def identifier(value: object) -> str:
    """A name that a Python function can take as a keyword argument."""
    if isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value):
        return ""
    return "must be a name as in Python code: letters, digits and '_'"


def device(value: object) -> str:
    """A device to measure on."""
    sound = isinstance(value, str) and re.fullmatch(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?", value)
    return "" if sound else "must be auto, cpu, cuda, cuda:<number>, mps, xpu or xpu:<number>"


def decimal(text: str) -> bool:
    """Whether the text is a count as people write it, without a sign or a leading 0."""
    return re.fullmatch(r"[1-9][0-9]{0,9}", text) is not None and count(int(text)) == ""


def lengths(value: object) -> str:
    """One sequence length, or several."""
    if not isinstance(value, list | tuple):
        return count(value)
    if not value or any(count(one) for one in value):
        return "must be a length of at least 1, or several"
    return "" if all(a < b for a, b in pairwise(value)) else "must be in ascending order, each length once"


def timing(device: str, mode: str, *, dtype: str, autocast: str | None, cuda_graphs: bool) -> list[Told]:
    """What settings of a latency protocol that are sound each by itself cannot ask together."""
    problems: list[Told] = []
    if cuda_graphs and not device.startswith(("auto", "cuda")):
        problems.append((("cuda_graphs",), f"must be false on {device}: only CUDA replays graphs"))
    if cuda_graphs and mode != "forward":
        problems.append((("cuda_graphs",), f"must be false under `mode: {mode}`: only a forward pass is captured"))
    if autocast is not None and dtype != "float32":
        problems.append((("autocast",), f"must be none beside `dtype: {dtype}`: autocast starts from float32"))
    return problems


def storage(value: object) -> str:
    """A database that keeps what it is given."""
    if not isinstance(value, str) or "://" not in value:
        return "must be a URL: sqlite:///study.db for a file, or postgresql://user@host/name"
    if value in ("sqlite://", "sqlite:///", "sqlite:///:memory:"):
        return "must keep what it is given: write sqlite:///study.db"
    return "" if _speakable(value) else "must hold no character that no file name can have"


def number_range(low: float, high: float, default: float | None, *, log: bool) -> list[Told]:
    """What is wrong with the ends of a range of finite numbers and with the default in it."""
    problems: list[Told] = []
    if low >= high:
        problems.append((("high",), f"must be more than low (got low {low}, high {high})"))
    elif not all(abs(reach) <= sys.float_info.max for reach in (high - low, low + high, low * high if log else 0)):
        problems.append((("high",), f"must be nearer to low: no float holds the distance (got {low}, {high})"))
    elif default is not None and not low <= default <= high:
        problems.append((("default",), f"must lie between low {low} and high {high} (got {default})"))
    if log and low <= 0:
        problems.append((("low",), f"must be more than 0 under `log: true` (got {low})"))
    return problems


def most_seeds(seeds: int, max_seeds: int | None) -> list[Told]:
    """What is wrong with the seeds that a finalist gets at most, beside those that each one gets."""
    if max_seeds is None or (max_seeds >= seeds > 0):
        return []
    if seeds == 0:
        return [(("max_seeds",), f"must be left out under `seeds: 0`, which retrains nothing (got {max_seeds})")]
    return [(("max_seeds",), f"must be at least seeds, {seeds} (got {max_seeds})")]


def _ratio(value: object) -> str:
    return "" if _finite(value) and 0 < value < 1 else "must be a number above 0 and below 1"


def _loss(value: object) -> str:
    return "" if _finite(value) and value >= 0 else "must be a number of at least 0"


PRUNE_GOALS: Mapping[str, Rule] = {"heads": count, "latency_ratio": _ratio, "quality_loss": _loss}
"""Each target of a pruning, and its rule."""


def one_goal(given: Sequence[str]) -> list[Told]:
    """What is wrong with the targets of a pruning that are named together."""
    return [((name,), f"is one goal too many beside {given[0]}; keep one") for name in given[1:]]


def choices(values: Sequence[object], default: object = None) -> list[Told]:
    """What is wrong with values to choose from, where 1 and ``True`` are equal, and with the default."""
    problems: list[Told] = [] if values else [(("choices",), "must name at least one value")]
    for index, value in enumerate(values):
        if value in values[:index]:
            twin = values[values.index(value)]
            equal = "" if type(twin) is type(value) else f", which equals {twin!r}"
            problems.append((("choices", index), f"is there twice: {value!r}{equal}; keep one"))
    if default is not None and (type(default), default) not in [(type(value), value) for value in values]:
        problems.append((("default",), f"must be one of the choices (got {default!r})"))
    return problems


def grid(sampler: str, real: Sequence[str]) -> str:
    """What is wrong with the sampler where the params *real* are real numbers."""
    return f"grid cannot list the real numbers of {', '.join(real)}; give choices" if sampler == "grid" and real else ""


def ehvi(sampler: str, qualities: int, costs: int) -> str:
    """What is wrong with the sampler for so many objectives that the task reports, and that headtune measures."""
    if sampler != "ehvi" or (qualities == 1 and costs <= 1):
        return ""
    return (
        f"ehvi needs one objective that the task reports and at most one that headtune measures (got {qualities} and "
        f"{costs}); take gp, or auto"
    )


def kept_weights(weights: str, hold: str, head_dims: Mapping[tuple[str, ...], object]) -> list[Told]:
    """What a space cannot ask of trained *weights* that are kept.

    Args:
        weights: ``fresh`` or ``keep``.
        hold: ``width`` or ``head_dim``.
        head_dims: the setting of that name, by the keys where it stands; ``None`` where it says nothing.
    """
    if weights != "keep":
        return []
    if hold != "head_dim":
        return [(("hold",), "must be head_dim under `weights: keep`: trained heads that are split anew are scrambled")]
    return [
        (keys, "must be same under `weights: keep`: trained heads keep their features")
        for keys, setting in head_dims.items()
        if setting not in ("same", None)
    ]


def supernet(evaluator: str, weights: str) -> str:
    """What is wrong with how plans are evaluated, where their *weights* are those of a trained model."""
    if evaluator == "supernet" and weights == "keep":
        return "must be train under `weights: keep`: a supernet trains all plans at once, from fresh weights"
    return ""


def gpus_for(device: str, executor: str, gpus: float) -> str:
    """What is wrong with a trial's GPUs where latency is measured on *device*."""
    unseen = device.startswith("cuda") and executor == "ray" and gpus == 0
    return "must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise" if unseen else ""


def inline(executor: str, concurrent: object, cluster: str, *, node: str | None, accelerator: str | None) -> list[Told]:
    """What the inline executor cannot do."""
    problems: list[Told] = []
    for key, asked in (("node", node), ("accelerator", accelerator)):
        if executor == "inline" and asked is not None:
            problems.append(((key,), f"must be left out under `executor: inline`, which runs here (got {asked!r})"))
    if executor == "inline" and concurrent not in (None, "auto", 1):
        problems.append((("concurrent",), f"must be 1 or auto under `executor: inline` (got {concurrent})"))
    if executor == "inline" and cluster != "local":
        problems.append((("cluster",), "must be local under `executor: inline`"))
    return problems


def _speakable(name: str) -> bool:
    """Whether the system can be told the name."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
