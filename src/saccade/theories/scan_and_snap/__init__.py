"""What Scan and Snap (arXiv 2305.16380) predicts, as plain functions of plain arrays.

Each function holds one statement: the equation, the paper's letters, where it applies, and where
the paper is wrong. `as_printed=True` gives the paper's own form of a corrected formula, so that
both can be compared with the same measurement. Keys such as [tian2023, eq. 7] point into
references.bib. NumPy and SciPy only.
"""

from .adam import *
from .assumptions import *
from .attention import *
from .backprop import *
from .clock import *
from .concentration import *
from .decoder import *
from .early_attention import *
from .embedded_terms import *
from .fast_attention import *
from .features import *
from .frozen_attention import *
from .gain import *
from .gradient import *
from .pair_coupling import *
from .plain_descent import *
from .plain_fates import *
from .plain_growth import *
from .positions import *
from .self_consistent import *
from .snapping import *
from .wrong_decoder import *
