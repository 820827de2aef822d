"""Formulas of From Condensation to Rank Collapse, checked by calculus: no run stands behind them."""

from saccade.experiments.rank_collapse.formulas import collapse, escape

FORMULAS = [*escape.FORMULAS, *collapse.FORMULAS]
