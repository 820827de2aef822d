"""What Focus and Dilution (arXiv 2605.01199) predicts, as plain functions of plain arrays.

Each function holds one statement: the equation, the letters, where it applies. [chen2026, ...]
marks what the paper states; [derived, ...] marks what follows from its model and data and was
derived for this package. Keys point into references.bib. Token 0 is the most frequent one; a
trailing `_0` in other names means "at t = 0". NumPy and SciPy only.
"""

from .assumptions import *
from .condensation import *
from .contexts import *
from .drift import *
from .drive import *
from .expansion import *
from .focus import *
from .gradients import *
from .laws import *
from .new_directions import *
from .rank_one import *
from .saturated import *
from .spectra import *
from .stall import *
from .symmetric import *
from .transition import *
from .unigram import *
