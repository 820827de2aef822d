"""What "From Condensation to Rank Collapse" (arXiv 2510.06954) predicts, as plain functions of
plain arrays.

[chen2025, ...] marks what the paper states, [derived] what follows from its model and is ours.
NumPy and SciPy only.
"""

from .blow_up import *
from .drive import *
from .two_clue import *
