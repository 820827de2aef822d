"""Every statement that a claim may test, by its key, and every misprint, by paper."""

from . import questions
from .focus_and_dilution import statements as focus_and_dilution
from .focus_and_dilution.errata import MISPRINTS as _FOCUS_AND_DILUTION
from .scan_and_snap import statements as scan_and_snap

STATEMENTS = {each.key: each for each in (*scan_and_snap.STATEMENTS, *focus_and_dilution.STATEMENTS, *questions.STATEMENTS)}
MISPRINTS = {"tian2023": (), "chen2026": _FOCUS_AND_DILUTION}
