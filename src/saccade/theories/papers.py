"""The papers whose theories are run here: the one list, in the order of the README, the report and
the page of errata.
"""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """How statements cite it, its title, what its theory is called, the folder of that theory and
    of its experiments, and which version was read.
    """

    key: str
    title: str
    theory: str
    part: str
    version: str


PAPERS = (
    Paper(
        "tian2023",
        "Scan and Snap",
        "Scan and Snap",
        "scan_and_snap",
        "arXiv 2305.16380, version 4 (30 October 2023)",
    ),
    Paper(
        "chen2026",
        "Focus and Dilution",
        "Focus and Dilution",
        "focus_and_dilution",
        "arXiv 2605.01199, version 1",
    ),
    Paper(
        "chen2025",
        "From Condensation to Rank Collapse",
        "Rank collapse",
        "rank_collapse",
        "arXiv 2510.06954, in two machine-read copies; "
        "where they differ, nothing is called a misprint",
    ),
)
