"""Data with known statistics: sequence classes (Scan and Snap), Markov chains (Focus and Dilution),
and real text (`text`).
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
