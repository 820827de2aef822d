"""Theory: what the papers predict, a package for each. Nothing here knows how a simulation is done."""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
