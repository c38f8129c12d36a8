"""The loop that most people meet: check, profile, search, verify, and what comes of it."""

from headtune.study.asking import AskedTrial
from headtune.study.checking import Checked, check
from headtune.study.driver import measuring_executor
from headtune.study.finalists import front_of
from headtune.study.profiling import Profile, profile
from headtune.study.reading import read
from headtune.study.record import Finalist, LatencyRange, StudyRecord, Verdict
from headtune.study.searching import search
from headtune.study.session import Study
from headtune.study.spec import ExecutorName, Resources, SearchOptions, StudySpec, VerifyOptions

__all__ = [
    "AskedTrial",
    "Checked",
    "ExecutorName",
    "Finalist",
    "LatencyRange",
    "Profile",
    "Resources",
    "SearchOptions",
    "Study",
    "StudyRecord",
    "StudySpec",
    "Verdict",
    "VerifyOptions",
    "check",
    "front_of",
    "measuring_executor",
    "profile",
    "read",
    "search",
]
