"""The vocabulary of experiments: claims with relations, one object per experiment, panels for paper
and screen.
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
