"""One trial: what the person brings, what a training sees, what a worker does, and what it tells the broker."""

from headtune.trial.contract import Broker, Channel, Executor, Observer, Signal, Silent
from headtune.trial.messages import Kind, Measurement, TrialRequest, TrialResult
from headtune.trial.outcome import Outcome
from headtune.trial.params import ChoiceParam, FloatParam, IntParam, Param, ParamValue
from headtune.trial.record import TrialRecord
from headtune.trial.reference import TaskObject, TaskReference, TaskSource
from headtune.trial.run import Run
from headtune.trial.setup import TrialSetup, Weights
from headtune.trial.supervised import Supervised
from headtune.trial.task import Inputs, Task
from headtune.trial.trainer import trainer_callback

__all__ = [
    "Broker",
    "Channel",
    "ChoiceParam",
    "Executor",
    "FloatParam",
    "Inputs",
    "IntParam",
    "Kind",
    "Measurement",
    "Observer",
    "Outcome",
    "Param",
    "ParamValue",
    "Run",
    "Signal",
    "Silent",
    "Supervised",
    "Task",
    "TaskObject",
    "TaskReference",
    "TaskSource",
    "TrialRecord",
    "TrialRequest",
    "TrialResult",
    "TrialSetup",
    "Weights",
    "trainer_callback",
]
