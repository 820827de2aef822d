"""Formulas of Scan and Snap and of JoMA, checked by calculus: a row for each, no run behind it."""

from saccade.experiments.scan_and_snap.formulas import attention, decoder, growth

FORMULAS = [*decoder.FORMULAS, *attention.FORMULAS, *growth.FORMULAS]
