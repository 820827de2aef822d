"""Formulas of Focus and Dilution, checked by calculus: a row for each, no run behind it."""

from saccade.experiments.focus_and_dilution.formulas import critical_points, frequencies, saturated

FORMULAS = [*critical_points.FORMULAS, *frequencies.FORMULAS, *saturated.FORMULAS]
