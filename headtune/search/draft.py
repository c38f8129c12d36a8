"""A training that the study wants, before it has a number."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from headtune.heads import HeadPlan, SearchSpace
from headtune.search.seeds import trial_seed
from headtune.trial.messages import Kind, TrialRequest
from headtune.trial.params import ParamValue
from headtune.trial.record import TrialRecord

_KEYS = 65_536
"""Keys that are kept, since every key of a study is asked for whenever a trial is proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What to train, whether for the first time or again.

    Attributes:
        curve: what an earlier attempt reported, for an attempt that goes on from its checkpoint.
    """

    kind: Kind
    label: str = ""
    plan: HeadPlan
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    repeat: int = 0
    curve: tuple[tuple[int, float], ...] = ()
    in_space: bool = True

    @classmethod
    def of(cls, record: TrialRecord) -> "Draft":
        """The draft that *record* was made of."""
        return cls(
            kind=record.kind,
            label=record.label,
            plan=record.plan,
            params=record.params,
            repeat=record.repeat,
            curve=record.curve,
            in_space=record.in_space,
        )

    @property
    def key(self) -> str:
        """Hash of plan, params and repeat: equal for trainings that would be the same."""
        return trial_key(self.plan, self.params, self.repeat)

    def request(self, number: int, *, study_seed: int, epochs: int) -> TrialRequest:
        """What the worker is sent."""
        return TrialRequest(
            number=number,
            kind=self.kind,
            label=self.label,
            plan=self.plan,
            params=self.params,
            repeat=self.repeat,
            seed=trial_seed(study_seed, self.repeat),
            epochs=epochs,
            key=self.key,
        )


def baseline_drafts(
    baselines: Mapping[str, HeadPlan], space: SearchSpace, params: Mapping[str, ParamValue]
) -> list[Draft]:
    """The baselines' trainings; a plan with several names is trained once, under the first."""
    first: dict[HeadPlan, str] = {}
    for name, plan in baselines.items():
        first.setdefault(plan, name)
    return [
        Draft(kind="baseline", label=name, plan=plan, params=params, in_space=plan in space)
        for plan, name in first.items()
    ]


def trial_key(plan: HeadPlan, params: Mapping[str, ParamValue], repeat: int = 0) -> str:
    """Hash of plan, params and repeat, in 16 hexadecimal digits."""
    return _key(plan, json.dumps(sorted(params.items())), repeat)


@lru_cache(maxsize=_KEYS)
def _key(plan: HeadPlan, params: str, repeat: int) -> str:
    text = f"[{json.dumps(plan.to_json())}, {params}, {repeat}]"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
