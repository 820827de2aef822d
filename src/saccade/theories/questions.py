"""Questions that no theorem answers: mostly whether a statement about synthetic data holds on text
too.

JoMA's figure on text [tian2024] stands here too; its theorems are in `joma/statements.py`.
"""

from functools import partial

from .statement import FIGURE, QUESTION, Statement

_asked = partial(Statement, "saccade", kind=QUESTION)

FATES_ON_TEXT = _asked(
    "fates on text",
    "Do the frequent tokens of a text lose attention first?",
    (r"\dot z_{ml} < 0 \text{ for frequent } l",),
    place="after tian2023, Theorem 2",
)
WINNERS_ON_TEXT = _asked(
    "winners on text",
    "Do the frequent tokens of a text have most of the attention in the end?",
    place="after tian2023, Theorem 3",
)
DISTINCT_ON_TEXT = _asked(
    "distinct tokens on text",
    "Do distinct tokens of a text gain more than equally frequent ones?",
    (r"\dot z_{ml} > \dot z_{ml'}, \quad l \text{ distinct}, \ P(l) = P(l')",),
    place="after tian2023, Theorem 2",
)
POSITIONS_ON_TEXT = _asked(
    "positions on text",
    "Do the same tokens gain attention with and without positions?",
    place="after tian2023, Assumption 1(a)",
)
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
    "momentum as a rate",
    "Is momentum 0.9 the same as ten times the rate?",
    place="asked of text, naive guess",
)
ADAM_CHOOSES = _asked(
    "Adam's choice on text",
    "On text, does Adam favour other tokens than SGD?",
    place="after tian2023, Fig. 5",
)
CYCLE_ON_TEXT = _asked(
    "cycle on text",
    "Does training on real text condense, focus, dilute and open new directions?",
    place="after chen2026, sections 3 and 4.2",
)
FORECAST_ORDER = _asked(
    "forecast of the order",
    "Do counts of a text forecast which tokens gain attention in training?",
    place="after decoder first",
)
FORECAST_STAGES = _asked(
    "forecast of the stages",
    "Does the rank-one flow of counted pairs forecast the stages of training?",
    place="after chen2026, section 3",
)
FORECAST_ADAM = _asked(
    "forecast under Adam", "Does the forecast for Adam come true?", place="after focus under Adam"
)
FORECAST_TRANSFORMER = _asked(
    "forecast of a Transformer",
    "Does the first force tell what an ordinary Transformer attends to first?",
    (r"z_m(t) = \frac{t^2}{2} \eta_Y \eta_Z F_m + O(t^3)",),
    place="after the first force",
)
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
