"""Questions that no theorem answers: mostly whether a statement about synthetic data holds on text too.

The figure of JoMA [tian2024] stands here too: it is the only result of that paper that is measured.
"""

from functools import partial

from .statement import FIGURE, QUESTION, Statement

_asked = partial(Statement, "saccade", kind=QUESTION)

FATES_ON_TEXT = _asked(
    "fates on text",
    "Do distinct tokens of real text gain attention, and common ones lose it?",
    (r"\dot z_{ml} > 0 \text{ distinct}, \quad \dot z_{ml} < 0 \text{ common}",),
    place="after tian2023, Theorem 2",
)
ORDER_ON_TEXT = _asked(
    "order on text",
    "Among distinct tokens of real text, do frequent ones gain more, and earlier?",
    (r"P(l|n) > P(l'|n) \Rightarrow z_{ml}(t) > z_{ml'}(t)",),
    place="after tian2023, Theorem 3",
)
SNAP_ON_TEXT = _asked("snap on text", "Does attention on real text snap?", place="after tian2023, Theorem 4")
ENTROPY_AT_EQUAL_PATH = _asked(
    "entropy at equal rate times updates",
    "Is attention sparser at a higher rate after the same rate times updates?",
    place="after tian2023, Fig. 10",
)
DEPTH = _asked(
    "depth",
    "In deep models, does the first layer become sparse and settle first?",
    place="after tian2023, section 7",
)
ADAM_SUBSETS_ON_TEXT = _asked(
    "Adam's subsets on text",
    "Does Adam follow frequency less than SGD on text, and does its rate decide?",
    place="after tian2023, Fig. 5",
)
MOMENTUM_AS_A_RATE = _asked(
    "momentum as a rate", "Is momentum 0.9 nothing but ten times the rate?", place="asked of text, naive guess"
)
DECAY_DOES_NOT_CHOOSE = _asked(
    "weight decay", "Does weight decay leave the choice of tokens unchanged?", place="asked of text, naive guess"
)
CYCLE_ON_TEXT = _asked(
    "cycle on text",
    "Does training on real text condense, focus, dilute and open new directions?",
    place="after chen2026, sections 3 and 4.2",
)
FORECAST_ORDER = _asked(
    "forecast of the order",
    "Does the flow of counted classes forecast which tokens gain attention?",
    (r"\dot z_{ml} = \eta_Z f_{nl}^2 \xi_n",),
    place="after tian2023, Theorems 2 and 3",
)
FORECAST_STAGES = _asked(
    "forecast of the stages",
    "Does the rank-one flow of counted pairs forecast the stages of training?",
    place="after chen2026, section 3",
)
FORECAST_ADAM = _asked("forecast under Adam", "Does what the forecast says of Adam come true?", place="after focus under Adam")
JOMA_FIG_6 = Statement(
    "tian2024",
    "Fig. 6",
    "Attention entropy falls, then rises again, layer by layer",
    (r"H = -\sum_j b_j \ln b_j",),
    ("WikiText2, Adam at rate 1e-4, one to ten layers",),
    "experiments",
    kind=FIGURE,
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
