"""Every statement that a claim may test, by its key, and every misprint, by paper."""

from . import questions
from .focus_and_dilution import stage_four
from .focus_and_dilution import statements as focus_and_dilution
from .focus_and_dilution.errata import MISPRINTS as _FOCUS_AND_DILUTION
from .joma import statements as joma
from .rank_collapse import statements as rank_collapse
from .rank_collapse.errata import MISPRINTS as _RANK_COLLAPSE
from .scan_and_snap import open_statements
from .scan_and_snap import statements as scan_and_snap

LISTS = scan_and_snap, open_statements, focus_and_dilution, stage_four, rank_collapse, joma, questions
STATEMENTS = {each.key: each for module in LISTS for each in module.STATEMENTS}
MISPRINTS = {"tian2023": (), "chen2026": _FOCUS_AND_DILUTION, "chen2025": _RANK_COLLAPSE}
