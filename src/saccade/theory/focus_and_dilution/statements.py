r"""What Focus and Dilution [chen2026] states, and what we derived about it: each statement once, letters as NOTATION.md lists them.

The paper's Propositions 3.3, 3.4 and 3.8 and its Theorem 3.7 assume equally frequent low tokens, Proposition 3.8 also saturated
attention. What holds for any stationary law or at finite attention is ours; its `place` says what it extends. Angle brackets are
averages over $\pi$. Not here: what is computed from the formulas (the other modules of this folder).
"""

from functools import partial

from ..statement import FIGURE, OURS, Statement
from . import errata

_stated = partial(Statement, "chen2026")
_shown = partial(Statement, "chen2026", kind=FIGURE)
_ours = partial(Statement, "saccade", kind=OURS)

_SMALL = "small random start"
_ANY = "any chain with stationary law π"
_EQUAL = "low tokens equally frequent"
_LAZY = "lazy chain, P = λI + (1 - λ)1πᵀ"
_FLOW = "population gradient flow"
_CONDENSED = "rank-one weights near the unigram point"
_RATE = r"c = \frac{|\zeta|}{|\pi|^5} (\sum_i \pi_i^2 \zeta \cdot (P_i - \pi)) (\sum_j \pi_j^3 - |\pi|^4)"

PROPOSITION_2_3 = _stated(
    "Proposition 2.3",
    "Gradient flow and population-gradient limit: only token frequencies matter",
    (
        r"\text{attention: } A_{ij} = \frac{\pi_j e^{\Phi_{ij}}}{\sum_k \pi_k e^{\Phi_{ik}}},"
        r" \quad \Phi = W_0 W_Q W_K^\top W_0^\top, \quad M = W_0 W_1",
        r"\text{loss: } L = -\sum_i \pi_i \sum_j P_{ij} \ln p_{ij}, \quad p_i = \mathrm{softmax}(A_i M)",
        r"\frac{\partial L}{\partial M} = -\sum_i \pi_i A_i^\top (P_i - p_i), \quad"
        r" \frac{\partial L}{\partial \Phi} = -\sum_i \pi_i e_i (P_i - p_i) M^\top \mathrm{Var}(A_i)",
    ),
    ("infinitely many sequences of infinite length",),
    "section 2.3, eqs. 4 and 5, App. B.2",
)
LEMMA_3_1 = _stated(
    "Lemma 3.1",
    "Linearization near a saddle point: the fastest direction of the linear flow wins",
    (r"\dot \delta = J \delta + O(|\delta|^2), \quad |\delta(t) - e^{J t} \delta(0)| \le C \epsilon^2 e^{2 \mu t}",),
    (
        "a critical point with a growing direction",
        "smooth gradient",
        "the linear flow is still small",
        "for the direction: J symmetric",
    ),
    "section 3.1, eqs. 6 to 8, App. C.1",
)
THEOREM_3_2 = _stated(
    "Theorem 3.2",
    "Initial condensation: embedding and projection turn to one direction",
    (
        r"-\frac{\partial L}{\partial M} = \pi (\pi - \frac{1}{d})^\top,"
        r" \quad \frac{\partial L}{\partial \Phi} = 0 \text{ at the origin}",
        r"\frac{W_0}{|W_0|} \to \frac{\pi}{|\pi|} \alpha^\top,"
        r" \quad \frac{W_1}{|W_1|} \to \alpha \frac{(\pi - 1/d)^\top}{|\pi - 1/d|}",
        r"\text{at the rate } \mu_0 = |\pi| |\pi - \frac{1}{d}|",
    ),
    (_SMALL, _FLOW),
    "section 3.1, eqs. 9 to 11, App. C.1",
)
THEOREM_3_5 = _stated(
    "Theorem 3.5",
    "High frequency token bias: every query turns to the frequent tokens",
    (
        r"\frac{W_Q}{|W_Q|}, \frac{W_K}{|W_K|} \to \alpha \tilde \alpha^\top",
        r"\frac{\Phi}{|\Phi|} \to \frac{\pi \pi^\top}{|\pi|^2}",
    ),
    ("the flow comes close to the unigram point", "generic queries and keys"),
    "section 3.2, eqs. 15 to 17",
)
PROPOSITION_3_6 = _stated(
    "Proposition 3.6",
    "Invariant rank-one manifold: weights of rank one stay of rank one",
    (
        r"W_0 = \gamma \alpha^\top, \quad W_1 = \alpha \beta^\top, \quad W_Q = \lambda_Q \alpha \tilde \alpha^\top,"
        r" \quad W_K = \lambda_K \alpha \tilde \alpha^\top",
    ),
    (_FLOW,),
    "section 3.3, eqs. 18 to 20, App. C.3",
)
THEOREM_3_7 = _stated(
    "Theorem 3.7",
    "Mass redistribution: attention moves embedding mass to the frequent token",
    (
        r"(1 - \pi_1) \gamma_1 - (d - 1) \pi_1 \gamma_i \propto e^{c t} \text{ for } i \ne 1,"
        r" \quad c \text{ twice that of Proposition 3.4}",
    ),
    (_EQUAL, _LAZY, _CONDENSED),
    "section 3.3, eq. 21, App. C.3, eq. 159",
)
OTHER_CHAINS = _shown(
    "section 4.1",
    "Other chains with the same stationary law pass through the same stages",
    (r"\pi^\top P = \pi^\top",),
    ("four transition matrices of one stationary law",),
    "section 4.1",
)
FIG_2 = _shown(
    "Fig. 2",
    "Condensation, joint focus, dilution, a new direction, and again",
    (),
    ("four tokens, λ = 0.8, Adam",),
    "section 4.1, App. E.1",
    errata=(errata.ERRATUM_2_6,),
)
FIG_3 = _shown(
    "Fig. 3",
    "On text the words of a probe focus together, dilute, and end on themselves",
    (),
    ("WikiText and TinyStories, one epoch, Adam",),
    "section 4.2",
)

LINEAR_FLOW_ERROR = _ours(
    "error of the linear flow",
    "The linear flow's error is of third order at the origin, of second elsewhere",
    (
        r"\text{at the origin: } |\delta(t) - e^{J t} \delta(0)| \propto \epsilon^3",
        r"\text{at the unigram point: } |\delta(t) - e^{J t} \delta(0)| \propto \epsilon^2",
    ),
    (_ANY, "a fixed number of e-folds"),
    "sharpens chen2026, Lemma 3.1",
)
CONDENSATION_FROM_THE_START = _ours(
    "condensation from the start alone",
    "The start decides the width direction, its size the length of stage I",
    (
        r"\alpha \propto W_0^\top(0) \frac{\pi}{|\pi|} + W_1(0) \frac{\pi - 1/d}{|\pi - 1/d|},"
        r" \quad t_I = \frac{1}{\mu_0} \ln \frac{1}{\epsilon} + O(1)",
    ),
    (_SMALL, _ANY),
    "sharpens chen2026, Theorem 3.2",
)
ATTENTION_AT_REST = _ours(
    "attention at rest",
    "During condensation queries and keys keep their size and their rank",
    (r"|\dot W_Q| = O(\epsilon^5)",),
    (_SMALL, _ANY),
    "sharpens chen2026, Theorem 3.2",
)
UNIGRAM_POINT = _ours(
    "unigram point",
    "The critical point after condensation predicts token frequencies",
    (
        r"W_0 = \gamma \alpha^\top, \quad \gamma = g \frac{\pi}{|\pi|}, \quad W_1 = \alpha \beta^\top,"
        r" \quad \beta = \frac{\zeta}{g |\pi|}, \quad W_Q = W_K = 0",
        r"\zeta_i = \ln \pi_i - \frac{1}{d} \sum_j \ln \pi_j, \quad g = \sqrt{\frac{|\zeta|}{|\pi|}}, \quad p_i = \pi,"
        r" \quad L = -\sum_j \pi_j \ln \pi_j",
    ),
    (_ANY,),
    "extends chen2026, Proposition 3.3, to any stationary law",
)
ATTENTION_RATE = _ours(
    "growth rate of attention",
    "At the unigram point queries and keys grow at the rate |c|, nothing else does",
    (r"\dot W_Q = c \alpha \alpha^\top W_K, \quad \dot W_K = c \alpha \alpha^\top W_Q", _RATE),
    (_ANY, _CONDENSED),
    "extends chen2026, Proposition 3.4, to any stationary law",
)
FIRST_ORDER_ATTENTION = _ours(
    "attention of first order",
    "How far each query tilts to each token, given the strength of attention",
    (r"A_{ij} \approx \pi_j (1 + \kappa \gamma_i (\gamma_j - \langle \gamma \rangle))",),
    (_ANY, _CONDENSED),
    "extends chen2026, Theorem 3.5",
)
SIGN_RULE = _ours(
    "sign rule",
    "The sign of c decides whether queries first turn to frequent tokens or away",
    (r"\mathrm{sign}(A_{i1} - \pi_1) = \mathrm{sign}(c)", _RATE),
    (_ANY, "gradient flow or plain descent", "attention slower than condensation"),
    "extends chen2026, Theorem 3.5, to chains with c < 0",
)
DRIVE = _ours(
    "drive of attention",
    "Attention first moves to the side of its drive, added up over condensation",
    (r"D = \mathrm{Var}_\pi(\gamma) \sum_i \pi_i \gamma_i (P_i - \pi) \cdot \beta",),
    (_ANY, "rank-one weights", "gradient flow or plain descent"),
    "extends the sign rule to attention that does not wait",
)
TOKEN_DRIFT = _ours(
    "drift of each token",
    "Growing attention moves the embedding of each token by a known amount",
    (
        r"F_j = 2 \kappa_1 \pi_j (\gamma_j - \langle \gamma \rangle) + \pi_j (P_j - \pi) \cdot \beta"
        r" \mathrm{Var}_\pi(\gamma), \quad \sum_j F_j = 0",
        r"\kappa_1 = \sum_i \pi_i \gamma_i (P_i - \pi) \cdot \beta,"
        r" \quad \delta \gamma_\perp(t) = \frac{\kappa(t)}{2 c} F_\perp, \quad \kappa \sim e^{2 c t}",
    ),
    (_ANY, _CONDENSED),
    "extends chen2026, Theorem 3.7, to any stationary law",
)
TURNING_RULE = _ours(
    "turning rule",
    "A query's focus peaks when its embedding is half gone; rare tokens turn first",
    (
        r"\Phi_{i1} = \kappa \gamma_i(\kappa) \gamma_1, \quad \gamma_i(\kappa) = \gamma_i - \frac{|F_i|}{2 c} \kappa",
        r"\text{peak at } \kappa \approx \frac{c \gamma_i}{|F_i|},"
        r" \quad \text{focus gone at } \kappa \approx \frac{2 c \gamma_i}{|F_i|}",
    ),
    (_ANY, _CONDENSED),
    "follows from the drift of each token",
)
NEXT_DIRECTION = _ours(
    "next-direction rule",
    "One matrix of gradients tells the next direction and its growth rate",
    (
        r"B = [\frac{\partial L}{\partial M} \mid \frac{\partial L}{\partial \Phi} W_0 W_K \mid \frac{\partial L}{\partial"
        r" \Phi^\top} W_0 W_Q]",
        r"\text{rate } s_1(B), \quad \text{at the origin } B = -\pi (\pi - \frac{1}{d})^\top",
    ),
    (_ANY, "a nearly critical point"),
    "extends chen2026, Theorem 3.9, to any critical point",
)
INVARIANTS = _ours(
    "conserved matrices",
    "Two matrices are conserved along the flow",
    (
        r"W_0^\top W_0 - W_1 W_1^\top - W_Q W_Q^\top - W_K W_K^\top = \text{const}",
        r"W_Q^\top W_Q - W_K^\top W_K = \text{const}",
    ),
    (_FLOW, "one rate for all weights"),
    "follows from chen2026, Proposition 2.3",
)
CYCLE = _ours(
    "cycles to the end",
    "Focus and dilution repeat until the embedding has one direction less than tokens",
    (r"\mathrm{rank} W_0 \le d - 1",),
    (_FLOW, _SMALL),
    "extends chen2026, section 4.1",
)
ADAM_FOCUS = _ours(
    "focus under Adam",
    "Adam on mini-batches turns to the frequent token, far stronger than the flow",
    (r"\Delta \theta \approx -\eta \frac{m}{\sqrt{v}}, \quad |\Delta \theta| \approx \eta",),
    ("Adam", "mini-batches", _SMALL),
    "explains chen2026, Fig. 2",
)
ADAM_WITHOUT_NOISE = _ours(
    "Adam without noise",
    "Full-batch Adam gives all tokens one embedding, where attention has no drive",
    (r"W_0 \propto 1 \alpha^\top \Rightarrow \mathrm{Var}_\pi(\gamma) = 0 \Rightarrow D = 0",),
    ("Adam on the population gradient", _SMALL),
    "follows from the drive of attention",
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
