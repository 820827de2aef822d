"""The papers whose theories are run here: the one list, in the order of the README, the report and
the page of errata.
"""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """How statements cite it, its title, what its theory is called, and the folder of that theory
    and of its experiments.
    """

    key: str
    title: str
    theory: str
    part: str


PAPERS = (
    Paper("tian2023", "Scan and Snap", "Scan and Snap", "scan_and_snap"),
    Paper("chen2026", "Focus and Dilution", "Focus and Dilution", "focus_and_dilution"),
    Paper("chen2025", "From Condensation to Rank Collapse", "Rank collapse", "rank_collapse"),
)
