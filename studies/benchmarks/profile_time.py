"""How long a profile takes: of a whole model with twelve attention sites, and of one plan.

    python studies/benchmarks/profile_time.py

The twelve sites are those of an encoder-decoder of four and four layers, width 128, batch 8, 64 and 32 positions, under
`hold: width`, on two threads: check, named plans, the pass taken apart, and the plans that tell what a head costs at
each site. The one plan is `*=2` of `studies/digits_vit.yaml`, in pairs with the present one. Imports are not counted.
Exits with 0 where the first takes under 60 s and the second under 2 s.
"""

import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import headtune
from headtune.config import load_study
from headtune.execute import InlineExecutor
from headtune.heads import HeadPlan
from headtune.study import StudySpec, check, profile, profile_findings
from headtune.study.preparing import trial_setup
from headtune.trial import TaskObject
from headtune.trial.measuring import Candidate, profile_candidates

LAYERS, WIDTH, BATCH, SOURCE, TARGET = 4, 128, 8, 64, 32
WHOLE_S, PLAN_S = 60.0, 2.0
DIGITS = Path(__file__).parents[1] / "digits_vit.yaml"


class Translator(nn.Module):
    """An encoder-decoder over features."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Transformer(WIDTH, 8, LAYERS, LAYERS, 4 * WIDTH, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(B, S, WIDTH), (B, T, WIDTH) → (B, T, WIDTH)."""
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        made: Tensor = self.layers(source, target, tgt_mask=mask, tgt_is_causal=True)
        return made


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor, Tensor]:
    """Random features of both sides."""
    return torch.randn(batch_size, SOURCE, WIDTH), torch.randn(batch_size, TARGET, WIDTH)


def twelve_sites() -> StudySpec:
    """The study of the translator, for its profile alone."""
    return StudySpec(
        name="twelve-sites",
        task=TaskObject(headtune.Task(model=Translator, inputs=inputs, train=lambda model, run: None)),
        space=headtune.SpaceOptions(hold="width", heads=(1, 2, 4, 8, 16)),
        weights="fresh",
        objectives=(headtune.Objective(metric="quality", direction="maximize"),),
        latency=headtune.LatencyProtocol(batch_size=BATCH),
        resources=headtune.Resources(cpus=2),
        storage="sqlite:///unused.db",
    )


def whole_profile() -> float:
    """Seconds of check and profile of the model with twelve sites; prints what it found."""
    spec = twelve_sites()
    began = time.perf_counter()
    checked = check(spec)
    found = profile(spec, checked, InlineExecutor(), details=True)
    seconds = time.perf_counter() - began
    assert found.details is not None
    print(f"{len(checked.sites)} sites, {found.details.fitted} plans timed")
    for sentence in profile_findings(found):
        print(f"  {sentence}")
    return seconds


def one_plan() -> float:
    """Seconds that measuring one plan of the digits study takes."""
    spec = load_study(DIGITS)
    checked = check(spec)
    plan = HeadPlan.parse("*=2", checked.sites, hold=spec.space.hold)
    setup, executor = trial_setup(spec, checked), InlineExecutor()
    began = time.perf_counter()
    executor.call(profile_candidates, setup, [Candidate(plan=plan, params={})])
    return time.perf_counter() - began


def main() -> int:
    """Print both figures; 0 where they hold."""
    whole, plan = whole_profile(), one_plan()
    print(f"{'':36}{'seconds':>9}{'at most':>9}")
    print(f"{'whole profile of twelve sites':36}{whole:>9.1f}{WHOLE_S:>9.0f}")
    print(f"{'one plan of digits_vit':36}{plan:>9.2f}{PLAN_S:>9.0f}")
    return 0 if whole < WHOLE_S and plan < PLAN_S else 1


if __name__ == "__main__":
    sys.exit(main())
