"""The model of one of a study's plans, ready to be taken away."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadPlan
from headtune.search import Ledger
from headtune.study.checking import check
from headtune.study.fingerprint import check_same_model
from headtune.study.preparing import trial_setup
from headtune.study.reading import checked_to_json, read
from headtune.study.record import StudyRecord
from headtune.study.spec import StudySpec
from headtune.surgery.checkpoint import Skeleton, load_checkpoint, read_skeleton
from headtune.surgery.transaction import copied
from headtune.trial.build import build_model, build_planned, probe_inputs
from headtune.trial.params import ParamValue, baseline_values
from headtune.trial.task import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A model with a plan applied.

    Attributes:
        model: on the CPU, in eval mode.
        skeleton: its plan, hold and params.
        inputs: a small batch of the task's.
        origin: where its weights come from, as a sentence.
    """

    model: nn.Module
    skeleton: Skeleton
    inputs: Inputs
    origin: str


def planned_model(spec: StudySpec, text: str | None = None) -> PlannedModel:
    """The model of the plan that the study recommends, or of the one that *text* describes.

    The weights are those that the verification left, where it trained or scored this plan; else the plan is applied to
    what the task's ``model`` returns, in the same way as a trial does.

    Args:
        spec: a study whose search has begun.
        text: a plan as :meth:`HeadPlan.parse` reads it.

    Raises:
        StorageError: the study holds nothing yet, or recommends nothing.
        PlanError: *text* is no legal plan of the study's model.
        TaskError: the task does not import, or a function of it failed.
        StudyChangedError: the task's ``model`` returns another model than the study began with.
        SurgeryError: the model does not take the plan.
    """
    record = read(spec)
    plan, params = _chosen(spec, record, text)
    task = spec.task.load()
    inputs = probe_inputs(task, spec.latency)
    skeleton = Skeleton(plan=plan, hold=record.hold, params=params)
    saved = _saved(spec.output, plan, params)
    if saved is not None:
        model = load_checkpoint(saved, lambda kept: copied(build_model(task, kept.params, spec.seed)))
        origin = f"the model that the verification left in {saved}"
    else:
        checked = check(spec)
        check_same_model(record.name, Ledger.read(spec.storage, spec.name).recall("checked"), checked_to_json(checked))
        setup = trial_setup(spec, checked, ranking=record.ranking)
        model = build_planned(replace(setup, device="cpu"), task, plan, params, spec.seed)
        origin = _ORIGINS[record.weights] if record.trains else "the heads that the study left of the trained model"
    return PlannedModel(model=model.cpu().eval(), skeleton=skeleton, inputs=inputs, origin=origin)


_ORIGINS = {
    "fresh": "what the task's model returns with the plan applied: it is not trained, since no finalist has this plan",
    "keep": "the trained model with heads pruned: it is not trained on, since no finalist has this plan",
}


def _chosen(spec: StudySpec, record: StudyRecord, text: str | None) -> tuple[HeadPlan, Mapping[str, ParamValue]]:
    """The plan that is wanted, and the params of the finalist that has it, else those of the baselines."""
    if text is not None:
        maximum = None if record.weights == "keep" else spec.space.maximum
        plan = HeadPlan.parse(text, record.sites, hold=record.hold, maximum=maximum)
        finalist = next((one for one in record.finalists if one.plan == plan), None)
        return plan, baseline_values(spec.params) if finalist is None else finalist.params
    chosen = record.recommended
    if chosen is None:
        raise StorageError(
            f"study {record.name!r} recommends no plan{' yet' if record.verdict is None else ''}: "
            "run the search to its end, or name a plan with --plan"
        )
    return chosen.plan, chosen.params


def _saved(output: Path | None, plan: HeadPlan, params: Mapping[str, ParamValue]) -> Path | None:
    """The folder in which the verification left the model of a plan with these params; ``None`` where it did not."""
    folders = [] if output is None else sorted((output / "models").glob("*/plan.json"))
    for folder in (file.parent for file in folders):
        skeleton = read_skeleton(folder)
        if skeleton.plan == plan and dict(skeleton.params) == dict(params):
            return folder
    return None
