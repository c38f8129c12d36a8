"""The loop that most people meet: check, profile, search, verify, and what comes of it."""

from headtune.study.against import Change, beside_present, changes, check_known, read_latencies
from headtune.study.asking import AskedTrial
from headtune.study.checking import Checked, check
from headtune.study.details import HeadCost, ProfileDetails
from headtune.study.driver import measuring_executor
from headtune.study.finalists import front_of
from headtune.study.findings import profile_findings
from headtune.study.profiling import Profile, profile
from headtune.study.reading import read
from headtune.study.record import Finalist, LatencyRange, StudyRecord, Verdict
from headtune.study.searching import search
from headtune.study.session import Study
from headtune.study.spec import ExecutorName, Resources, SearchOptions, StudySpec, VerifyOptions

__all__ = [
    "AskedTrial",
    "Change",
    "Checked",
    "ExecutorName",
    "Finalist",
    "HeadCost",
    "LatencyRange",
    "Profile",
    "ProfileDetails",
    "Resources",
    "SearchOptions",
    "Study",
    "StudyRecord",
    "StudySpec",
    "Verdict",
    "VerifyOptions",
    "beside_present",
    "changes",
    "check",
    "check_known",
    "front_of",
    "measuring_executor",
    "profile",
    "profile_findings",
    "read",
    "read_latencies",
    "search",
]
