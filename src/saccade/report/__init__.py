"""The report only displays: it reads records and the files next to them, and imports neither JAX
nor PyTorch.
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
