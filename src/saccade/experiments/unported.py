"""A bridge while experiments move to `Experiment`: a module with Config, run, claims, table and figure seen as one."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from saccade.lab.claim import PUBLISHED, REPLICATION, SIMULATION, Claim
from saccade.lab.experiment import Experiment
from saccade.lab.relation import Near
from saccade.theory.condition import met
from saccade.theory.statement import Statement


class _Unported(Experiment):
    def figure(self, record: Any, width: float | None = None, height: float | None = None) -> Any:
        return self.panels(record)

    def specs(self, record: Any) -> list[list[dict[str, Any]]]:
        return []


def unported(name: str, module: ModuleType) -> Experiment:
    return _Unported(
        name=name,
        settings=module.Config,
        measure=module.run,
        claims=lambda record: [_claim(old) for old in module.claims(record)],
        panels=module.figure,
        caption=getattr(module, "caption", None) or module.CAPTION,
        full=getattr(module, "FULL", None),
        table=module.table,
        files=getattr(module, "files", None),
        headlines=getattr(module, "measures", None),
        together=getattr(module, "together", None),
        free=tuple(getattr(module, "TOGETHER", ())),
    )


def _claim(old: Any) -> Claim:
    place = re.match(r"\[(\w+),? ?([^\]]*)\](.*)", old.source)
    paper, number, more = place.groups() if place else ("saccade", old.source.strip("[]"), "")
    against = PUBLISHED if "log" in more or "stored" in more else REPLICATION if "replication" in old.source else SIMULATION
    return Claim(
        Statement(paper, number or "results", number or paper, place=more.strip(", ")),
        old.statement,
        Near(old.predicted, old.tolerance),
        old.measured,
        given=tuple(met(name, holds) for name, holds in old.assumptions.items()),
        expected=old.expected,
        against=against,
    )
