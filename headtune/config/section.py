"""What every section of a study file is: closed, strict and frozen, with rules that name the key they are about."""

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from headtune.errors import HeadtuneError

RULES = "rules"
"""The type of an error that carries several problems."""

Problem = tuple[tuple[str | int, ...], str]
"""The keys from the section down to what is wrong, and what is wrong."""


def broken(problems: Iterable[Problem]) -> PydanticCustomError:
    """The error that tells the person of *problems*."""
    return PydanticCustomError(RULES, "breaks a rule", {"problems": list(problems)})


class Section(BaseModel):
    """A mapping of a study file: an unknown key is an error, and no value is converted into another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    def problems(self) -> Iterable[Problem]:
        """Broken rules that span several keys; asked once every key is sound alone."""
        return ()

    def build(self) -> object:
        """What the section says, as headtune's own value; what that refuses is a problem of the section."""
        return self

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        problems = list(self.problems()) or self._refusals()
        if problems:
            raise broken(problems)
        return self

    def _refusals(self) -> list[Problem]:
        try:
            self.build()
        except HeadtuneError as error:
            return [self._placed(problem) for problem in error.problems]
        return []

    def _placed(self, problem: str) -> Problem:
        """A sentence such as ``tie: stages is 0``, as a problem of the key that it begins with where that is one."""
        key, _, rest = problem.partition(": ")
        return ((key,), rest) if key in type(self).model_fields else ((), problem)
