"""Plans and params as Optuna's samplers see them, and back.

Each of the space's dimensions is the whole-number index of its choice; choices ascend, so that the index is ordinal,
from which a sampler learns more than from categories. Params keep their own scale.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from headtune.errors import SpaceError
from headtune.heads import AttentionSite, HeadChoice, HeadPlan
from headtune.heads.space import SearchSpace
from headtune.trial.params import ChoiceParam, FloatParam, IntParam, Param, ParamValue

Encoded = dict[str, Any]
"""Name of a dimension or a param → its value in Optuna."""


class Codec:
    """Translates between (plan, params) and Optuna's values.

    Args:
        space: the legal plans.
        params: the study's extra hyper-parameters, by name.

    Raises:
        SpaceError: a param is called like a dimension of the space.
    """

    def __init__(self, space: SearchSpace, params: Mapping[str, Param]) -> None:
        names = [dimension.name for dimension in space.dimensions]
        clashes = [name for name in params if name in names]
        if clashes:
            raise SpaceError(*(f"space.params: {name} is what a site is called; rename the param" for name in clashes))
        self._space = space
        self._params = dict(params)
        self._indices: dict[HeadPlan, tuple[int, ...] | None] = {}
        self._dimensions = {dimension.name: len(dimension.choices) for dimension in space.dimensions}
        self._counts = {dimension.name: list(map(_written, dimension.choices)) for dimension in space.dimensions}
        self.distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, count - 1) for name, count in self._dimensions.items()
        } | {name: _distribution(param) for name, param in params.items()}

    @property
    def sites(self) -> tuple[AttentionSite, ...]:
        """The model's attention blocks, as they are at present."""
        return self._space.sites

    @property
    def dimensions(self) -> int:
        """How many of the distributions, the first ones, are of the space; the others are params."""
        return len(self._dimensions)

    @property
    def continuous(self) -> tuple[str, ...]:
        """The params that have no end of values."""
        floats = ((name, param) for name, param in self._params.items() if isinstance(param, FloatParam))
        return tuple(name for name, param in floats if param.low < param.high)

    @property
    def size(self) -> int | None:
        """How many combinations of plan and params there are; ``None`` where a param is continuous."""
        if self.continuous:
            return None
        return math.prod(self._dimensions.values()) * math.prod(len(values) for values in self._grid().values())

    def encode(self, plan: HeadPlan, params: Mapping[str, ParamValue]) -> Encoded | None:
        """Optuna's values; ``None`` for what the space or a param's range does not hold."""
        index = self._index(plan)
        if index is None or params.keys() != self._params.keys():
            return None
        inside = all(_holds(self._params[name], value) for name, value in params.items())
        return dict(zip(self._dimensions, index, strict=True)) | dict(params) if inside else None

    def decode(self, encoded: Mapping[str, Any]) -> tuple[HeadPlan, dict[str, ParamValue]]:
        """The inverse of :meth:`encode`."""
        plan = self._space.plan([int(encoded[name]) for name in self._dimensions])
        return plan, {name: _typed(param, encoded[name]) for name, param in self._params.items()}

    def readable(self, encoded: Mapping[str, Any]) -> tuple[Encoded, dict[str, BaseDistribution]]:
        """What :meth:`encode` gave, and its distributions, as a person reads them: counts in place of their indices."""
        values = {name: self._counts[name][at] if name in self._counts else at for name, at in encoded.items()}
        counts = {name: CategoricalDistribution(choices) for name, choices in self._counts.items()}
        return values, {name: counts.get(name, self.distributions[name]) for name in encoded}

    def sample(self, rng: Random) -> Encoded:
        """Every combination equally likely; continuous params uniform on their scale."""
        return {name: self.sample_one(name, rng) for name in self.distributions}

    def sample_one(self, name: str, rng: Random) -> ParamValue:
        """One value of a dimension or a param."""
        if name in self._dimensions:
            return rng.randrange(self._dimensions[name])
        return _sample(self._params[name], rng)

    def uniform(self, share: float, rng: Random) -> Encoded:
        """Each dimension *share* of the way from its first choice to its last; params drawn as :meth:`sample` does."""
        return self.sample(rng) | {name: round(share * (count - 1)) for name, count in self._dimensions.items()}

    def walk(self) -> Iterator[Encoded]:
        """Every combination once, in an order that soon comes near every corner.

        Steps of the golden ratio's share of the whole, made prime to it.

        Raises:
            SpaceError: a param is continuous.
        """
        size = self.size
        if size is None:
            raise SpaceError(
                *(
                    f"sampler: grid cannot list {name}, which is continuous; give it choices, or take another sampler"
                    for name in self.continuous
                )
            )
        share = max(1, (size * 618 + 500) // 1000)  # in whole numbers: a space may be larger than any float
        step = next(step for step in range(share, 2 * size + 1) if math.gcd(step, size) == 1)
        for number in range(size):
            yield self._at(number * step % size)

    def _index(self, plan: HeadPlan) -> tuple[int, ...] | None:
        """The plan's index in the space, found once: each proposal asks for that of every plan of the study."""
        try:
            return self._indices[plan]
        except KeyError:
            return self._indices.setdefault(plan, self._space.index(plan))

    def _at(self, position: int) -> Encoded:
        values: list[Sequence[ParamValue]] = [range(count) for count in self._dimensions.values()]
        values += self._grid().values()
        strides = list(accumulate((len(column) for column in values), lambda a, b: a * b, initial=1))
        picks = [column[position // stride % len(column)] for column, stride in zip(values, strides, strict=False)]
        return dict(zip(self.distributions, picks, strict=True))

    def _grid(self) -> dict[str, Sequence[ParamValue]]:
        return {name: _values(param) for name, param in self._params.items()}


def _written(choice: HeadChoice) -> int | str:
    return choice.num_heads if choice == HeadChoice(choice.num_heads) else str(choice)


def _distribution(param: Param) -> BaseDistribution:
    match param:
        case FloatParam():
            return FloatDistribution(param.low, param.high, log=param.log)
        case IntParam():
            return IntDistribution(param.low, param.high, log=param.log)
        case ChoiceParam():
            return CategoricalDistribution(param.choices)


def _values(param: Param) -> Sequence[ParamValue]:
    match param:
        case FloatParam():
            return (param.low,)
        case IntParam():
            return range(param.low, param.high + 1)
        case ChoiceParam():
            return param.choices


def _holds(param: Param, value: ParamValue) -> bool:
    if isinstance(param, ChoiceParam):
        return value in param.choices
    return not isinstance(value, str) and param.low <= value <= param.high


def _typed(param: Param, value: Any) -> ParamValue:  # noqa: ANN401
    match param:
        case FloatParam():
            return float(value)
        case IntParam():
            return int(value)
        case ChoiceParam():
            return next(choice for choice in param.choices if choice == value)


def _sample(param: Param, rng: Random) -> ParamValue:
    match param:
        case FloatParam() if param.log:
            drawn = math.exp(rng.uniform(math.log(param.low), math.log(param.high)))
            return min(max(drawn, param.low), param.high)
        case FloatParam():
            return rng.uniform(param.low, param.high)
        case IntParam():
            return rng.randint(param.low, param.high)
        case ChoiceParam():
            return rng.choice(param.choices)
