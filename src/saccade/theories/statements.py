"""Every statement that a claim may test, by its key, and every misprint and dropped suspicion, by
paper.
"""

from importlib import import_module

from . import questions
from .focus_and_dilution import stage_four
from .focus_and_dilution import statements as focus_and_dilution
from .joma import statements as joma
from .papers import PAPERS
from .rank_collapse import statements as rank_collapse
from .scan_and_snap import open_statements
from .scan_and_snap import statements as scan_and_snap

LISTS = (
    scan_and_snap,
    open_statements,
    focus_and_dilution,
    stage_four,
    rank_collapse,
    joma,
    questions,
)
STATEMENTS = {each.key: each for module in LISTS for each in module.STATEMENTS}
_ERRATA = {paper.key: import_module(f"{__package__}.{paper.part}.errata") for paper in PAPERS}
MISPRINTS = {key: errata.MISPRINTS for key, errata in _ERRATA.items()}
DROPPED = {key: errata.DROPPED for key, errata in _ERRATA.items()}
