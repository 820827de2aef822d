"""Models: what is computed from parameters and data, and its gradients."""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
