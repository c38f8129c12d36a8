"""What a study shows: tables, pictures and one self-contained page, all made from a study's record."""

from headtune.report.documents import front_document, latency_document
from headtune.report.front_rows import Estimate, FrontRow, front_table
from headtune.report.search_front import front_hypervolume, front_trials
from headtune.report.tables import front_frame, trials_frame
from headtune.report.writer import write_report

__all__ = [
    "Estimate",
    "FrontRow",
    "front_document",
    "front_frame",
    "front_hypervolume",
    "front_table",
    "front_trials",
    "latency_document",
    "trials_frame",
    "write_report",
]
