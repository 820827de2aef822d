"""What "From Condensation to Rank Collapse" (arXiv 2510.06954) predicts, as plain functions of plain arrays.

[chen2025, ...] marks what the paper states; [derived] marks what follows from its model and was derived for this package.
NumPy and SciPy only.
"""

from .blow_up import *
from .drive import *
from .two_clue import *
