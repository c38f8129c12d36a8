"""Study files: what a study.yaml may hold, and from there to a study."""

from headtune.config.load import load_file, load_kept_study, load_study
from headtune.config.schema import StudyFile

__all__ = ["StudyFile", "load_file", "load_kept_study", "load_study"]
