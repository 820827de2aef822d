"""Every statement that a claim may test, by its key, and every correction of one, by its paper and number."""

from . import questions
from .focus_and_dilution import statements as focus_and_dilution
from .scan_and_snap import errata as scan_and_snap_errata
from .scan_and_snap import statements as scan_and_snap

__all__ = ["ERRATA", "STATEMENTS"]

STATEMENTS = {each.key: each for each in (*scan_and_snap.STATEMENTS, *focus_and_dilution.STATEMENTS, *questions.STATEMENTS)}
ERRATA = {(each.statement.paper, each.number): each for each in scan_and_snap_errata.ERRATA.values()}
