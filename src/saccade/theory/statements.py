"""Every statement that a claim may test, by its key."""

from . import questions
from .focus_and_dilution import statements as focus_and_dilution
from .scan_and_snap import statements as scan_and_snap

STATEMENTS = {each.key: each for each in (*scan_and_snap.STATEMENTS, *focus_and_dilution.STATEMENTS, *questions.STATEMENTS)}
