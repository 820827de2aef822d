"""What JoMA (arXiv 2310.00535) predicts of attention and the layer above it, as plain functions of
plain arrays.

Reconstructed from the abstract, the authors' code and reviews; formulas that we derived again say
so. NumPy and SciPy only.
"""

from .laws import *
