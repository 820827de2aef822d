r"""What "From Condensation to Rank Collapse" [chen2025] states, and what we derived about it;
letters as NOTATION.md lists them.

$w = v W_V$, $A = W^{[1]}$, $b = W^{[2]}$ in units of the initial scale $\epsilon$; dots are
derivatives along the flow of eq. 7. Formulas are as printed; where they are wrong, both forms are
in `errata.py`.
"""

from functools import partial

from ..statement import FIGURE, OURS, QUESTION, Statement
from . import errata

_FLOW, _CUBIC, _BLOW_UP = "gradient flow, one rate", "the cubic flow, eq. 7", "Assumption 1"
_PLATEAU = (_FLOW, "linear activation", "labels that the mean token does not separate")
_stated = partial(Statement.headed, "chen2025")
_defined = partial(_stated, hypotheses=("a definition, not a result",))
_cubic = partial(_stated, hypotheses=(_CUBIC,))
_late = partial(_stated, hypotheses=(_CUBIC, _BLOW_UP))
_ours = partial(Statement.headed, "saccade", kind=OURS)
_of_plateau = partial(_ours, hypotheses=_PLATEAU)

DEFINITION_1 = _defined(
    "Definition 1 (section 3): Condensation: all rows of a matrix turn to one direction",
    r"\langle \frac{W_k}{|W_k|}, v \rangle \to \pm 1 \text{ for every } k \text{ with } W_k \ne 0",
    errata=(errata.ERRATUM_3_2,),
)
DEFINITION_2 = _defined(
    "Definition 2 (section 3): Asymptotic rank collapse: the direction of a matrix tends to one of low rank",
    r"\text{the limit of } \frac{W}{|W|_F} \text{ has rank} \le k",
)
DEFINITION_3 = _stated(
    "Definition 3 (section 3, eqs. 1 to 5): One layer of attention with values and a two-layer readout, exponential loss",
    r"f = \sigma(\mathrm{softmax}(X W_Q W_K^\top X^\top / \sqrt{d}) X W_V W^{[1]}) W^{[2]}, \quad"
    r" L = \frac{1}{n} \sum_i e^{-y_i f(X_i)_s}",
    hypotheses=("weights N(0, ε²)", "output at the last token"),
    errata=(errata.ERRATUM_3_1,),
)
PROPOSITION_1 = _stated(
    "Proposition 1 (section 4.1, eqs. 6 and 7): Effective dynamics: three factors ascend their product, W_V only along v",
    r"v = \frac{S}{|S|}, \quad S = \sum_i y_i \sum_j X_{ij}, \quad \bar t = \frac{\epsilon |S|}{n s} t",
    r"\dot w = (A b)^\top, \quad \dot A = w^\top b^\top, \quad \dot b = A^\top w^\top, \quad W_Q, W_K \text{ still}",
    hypotheses=("leading order in ε",),
    errata=(errata.ERRATUM_3_3,),
)
PROPOSITION_2 = _cubic(
    "Proposition 2 (section 4.2, eq. 9, App. A.1.1): Conservation: squares of the factors keep their differences, index by index",
    r"w_k^2 - \sum_{k'} A_{k k'}^2, \quad b_k^2 - \sum_{k'} A_{k' k}^2 \text{ constant}",
)
DEFINITION_4 = _defined(
    "Definition 4 (section 4.2, eq. 10): Non-degenerate start",
    r"|w| \ne |b|, \quad |\dot w|^2 - |\dot b|^2 + \min(|w|^2, |b|^2) (|w|^2 - |b|^2) \ne 0",
    errata=(errata.ERRATUM_3_4,),
)
THEOREM_1 = _stated(
    "Theorem 1 (section 4.2, eqs. 11, 12, 16 to 19, App. A.1.2): Blow-up: a random start becomes infinite in finite time",
    r"E = w A b \to \infty \text{ for } t \to T^* < \infty",
    r"\dot E = |\dot w|^2 + |\dot b|^2 + |w|^2 |b|^2 \ge 3 E^{4/3}, \quad E(0) > 0: E \ge (E(0)^{-1/3} - t)^{-3}",
    r"E(0) \le 0: E \ge -((-E(0))^{-1/3} + t)^{-3}",
    hypotheses=(_CUBIC, "Gaussian start"),
)
ASSUMPTION_1 = _stated(
    "Assumption 1 (section 4.3): Condensation condition: all indices pull to one side",
    r"b_i (w A^i) > 0, \quad w_i (A_i b) > 0 \text{ for all } i",
    r"\langle b_i A^i, b_j A^j \rangle > 0, \quad \langle w_i A_i, w_j A_j \rangle > 0 \text{ for all } i, j",
    hypotheses=("at some time before the blow-up",),
)
THEOREM_2 = _late(
    "Theorem 2 (section 4.3, App. A.2): Condensation: W_V turns to the direction v of the data",
    r"\langle \frac{W_V^k}{|W_V^k|}, v \rangle \to \pm 1 \text{ for } t \to T^*",
    errata=(errata.ERRATUM_3_5, errata.ERRATUM_3_6),
)
ASSUMPTION_2 = _stated(
    "Assumption 2 (section 4.4): Separation: outer weights rest while attention is still small",
    r"|\nabla_{out} \tilde L_1| = O(\delta^2), \quad |W_Q|, |W_K| = O(\delta)",
    hypotheses=("until a critical scale of attention",),
    errata=(errata.ERRATUM_3_8,),
)
ASSUMPTION_2_STAR = _stated(
    "Assumption 2 star (section 4.4, App. A.4, eqs. 51 to 53): The same with weights that grow along fixed directions",
    r"\text{directions of } W_V, W^{[1]}, W^{[2]} \text{ constant}, \quad \frac{d}{dt} L_{1,i} = O(\delta^2)",
    hypotheses=("for all i",),
    errata=(errata.ERRATUM_3_9,),
)
PROPOSITION_3 = _stated(
    "Proposition 3 (section 4.4, eqs. 13 to 15, App. A.3): On the plateau only attention moves, linearly, driven by one matrix",
    r"|\nabla_{out} L| = O(\delta^2), \quad |\nabla_{att} L| = O(\delta)",
    r"\dot W_Q = F W_K, \quad \dot W_K = F^\top W_Q",
    r"F = \frac{1}{n s \sqrt{d}} \sum_i y_i L_{1,i} X_{is}^\top \beta^\top S_i",
    r"\beta = W_V W^{[1]} W^{[2]}, \quad L_{1,i} = e^{-y_i \bar X_i \beta}, \quad S_i = \sum_j X_{ij}^\top (X_{ij} - \bar X_i)",
    hypotheses=("Assumption 2", "linear activation"),
)
THEOREM_3 = _stated(
    "Theorem 3 (section 4.4, App. A.5, eqs. 54 to 58): Rank collapse: query and key tend to rank one, the top pair of F",
    r"\frac{W_Q}{|W_Q|}, \frac{W_K}{|W_K|} \to \text{rank} \le k, \quad k \text{ the multiplicity of } s_1(F)",
    hypotheses=("eq. 14 with constant F", "F ≠ 0"),
)
PROPOSITION_4 = _cubic(
    "Proposition 4 (App. A.2): Assumption 1 is never lost again",
    r"\text{Assumption 1 at } t_0 \Rightarrow \text{at every } t \in (t_0, T^*)",
)
DEFINITION_5 = _defined(
    "Definition 5 (App. A.2): Angles between the weighted rows, the readout and its velocity",
    r"\xi_{ij} = \text{angle}(w_i A_i, w_j A_j), \quad \psi_i = \text{angle}(\dot b, w_i A_i)",
    r"\phi_i = \text{angle}(b, w_i A_i), \quad \zeta = \text{angle}(b, \dot b)",
)
PROPOSITION_5 = _late(
    "Proposition 5 (App. A.2, eqs. 20 to 33): Weighted rows align, and the readout's speed tends to the square of the factors",
    r"\cos \xi_{ij} \to 1, \quad \frac{|\dot b|}{|w|^2}, \frac{|\dot b|}{|b|^2} \to 1",
    r"q (1 - u)^2 = \text{constant}, \quad q = w_i^2 w_j^2, \quad u = \frac{\langle w_i A_i, w_j A_j \rangle}{q}",
)
COROLLARY_1 = _late(
    "Corollary 1 (App. A.2, eq. 34): The readout's velocity aligns with every weighted row",
    r"\cos \psi_i \to 1",
)
PROPOSITION_6 = _late(
    "Proposition 6 (App. A.2): The readout stays on one side of every weighted row",
    r"\cos \phi_i \ge \cos \Theta_1 > 0 \text{ on } (T_1, T^*)",
)
PROPOSITION_7 = _late(
    "Proposition 7 (App. A.2, eqs. 36 and 37): The readout stays on one side of its velocity",
    r"\cos \zeta \ge \cos \Theta_2 > 0, \quad E \ge \cos \Theta_2 |b| |\dot b|",
)
PROPOSITION_8 = _late(
    "Proposition 8 (App. A.2, eqs. 38 and 39): Upper bound on the energy: it blows up no faster than an inverse cube",
    r"E(t) \le (E(s)^{-1/3} - C (t - s))^{-3} \text{ for } T_3 \le s < t < T^*",
    r"T^* \ge t + \frac{1}{C} E(t)^{-1/3}, \quad t < T^*",
    errata=(errata.ERRATUM_3_7,),
)
FIG_2 = _stated(
    "Fig. 2 (section 5.1, App. B.1): Share of indices and of pairs that meet Assumption 1",
    r"\frac{|A_1|}{d}, \quad \frac{|A_2|}{d^2}",
    hypotheses=("AdamW in the paper, the cubic flow here",),
    kind=FIGURE,
    errata=(errata.ERRATUM_3_11,),
)
ANCHOR_TASK = _stated(
    "eq. 60 (section 5.1, App. B.1): Anchor function: the token after the anchor, plus the anchor modulo two",
    r"f(X) = x_{i+1} + (a \text{ mod } 2), \quad x_i = a \in (1, 2, 3, 4)",
    hypotheses=("a definition, not a result", "one anchor among the first nine of ten tokens"),
    errata=(errata.ERRATUM_3_12,),
)
MATRIX_LAWS = _ours(
    "matrix laws (extends chen2025, Proposition 2 and eq. 27): Both conservation laws hold for whole matrices, also in the network",
    r"w^\top w - A A^\top, \quad A^\top A - b b^\top \text{ constant (eq. 7)}",
    r"W_V^\top W_V - W_1 W_1^\top, \quad W_1^\top W_1 - W_2 W_2^\top, \quad W_Q^\top W_Q - W_K^\top W_K \text{ constant}",
    hypotheses=(_FLOW, "the second of the network: linear activation"),
)
BLOW_UP_TIME = _ours(
    "blow-up time (sharpens chen2025, Theorem 1): When factors of rank one become infinite: Carlson's elliptic integral",
    r"T^* = R_F(x^2, y^2, z^2), \quad E > 0",
    r"T^* = 2 R_F(x^2 - m, y^2 - m, z^2 - m) - R_F(x^2, y^2, z^2), \quad E < 0, m = \min(x^2, y^2, z^2)",
    hypotheses=(_CUBIC, "w = x a, A = y a cᵀ, b = z c"),
)
SELF_SIMILAR = _ours(
    "asymptotics of the blow-up (sharpens chen2025, Propositions 5 and 8): All three factors end with one size and rank one",
    r"(w, A, b) \to \frac{(a, a c^\top, c)}{T^* - t}, \quad E^{1/3} (T^* - t) \to 1, \quad \frac{\dot E}{E^{4/3}} \to 3",
    hypotheses=(_CUBIC, "any blow-up"),
)
CONDITION_SIZE = _ours(
    "size at which Assumption 1 is met (qualifies chen2025, Assumption 1): It is met once weights have grown by a power of width",
    r"R^2 = \max_{ij} ( \frac{(K_1)_{ij}}{a_i a_j}, -\frac{(K_2)_{ij}}{c_i c_j} )"
    r" \sim d^{7/2} \ln d \text{, in widths of 2 to 64 } R \sim d^{1.8} \text{, measured}",
    hypotheses=(_CUBIC, "Gaussian start"),
)
COLUMN_DISTANCE = _ours(
    "distance of a column from v (sharpens chen2025, Theorem 2): How far each column of W_V is from v, at any time",
    r"1 - \cos(W_V^i, v) = \frac{|W_{V,\perp}^i|^2}{2 w_i^2}",
    hypotheses=(_CUBIC,),
)
ESCAPE_CLOCK = _ours(
    "escape clock (sharpens chen2025, Theorem 1): When the loss falls through a level, from the start alone",
    r"t = \frac{T^*}{\epsilon g_0} - \frac{1}{r_1 g_0} + \int_0^{r_1} (\frac{1}{g} - \frac{1}{g_0}) \frac{dr}{r^2} + O(\epsilon)",
    r"g(r^3) = -\frac{d \tilde L_1}{d \beta} \text{ along } v, \quad \tilde L_1(r_1^3) = \text{level}",
    hypotheses=(_FLOW, "small random start", "β stays along v"),
)
WAITING_TIMES = _of_plateau(
    "waiting times (sharpens chen2025, section 4): Three small factors wait 1/ε, two wait ln(1/ε), and so does stage II",
    r"t_I = \frac{T^*}{\epsilon g_0}, \quad t_{II} = \frac{1}{s_1(F)} \ln \frac{1}{\epsilon}, \quad \text{readout of size one: }"
    r" t_I = \frac{1}{g_0 |b|} \ln \frac{1}{\epsilon}",
)
DRIVE_ANY_LOSS = _ours(
    "drive of query and key (extends chen2025, Proposition 3): For any loss and at any weights one matrix drives query and key",
    r"-\frac{\partial L}{\partial W_Q} = F W_K, \quad -\frac{\partial L}{\partial W_K} = F^\top W_Q",
    r"F = -\frac{\partial L}{\partial (W_Q W_K^\top)}",
    hypotheses=("logits x W_Q W_Kᵀ xᵀ: no rotation, no normalisation of queries and keys",),
)
OPENING = _of_plateau(
    "opening of attention (sharpens chen2025, Theorem 3): How fast, towards what and how late attention opens on the plateau",
    r"\dot a = s_1 a, \quad a = \frac{1}{2} |u_1^\top W_Q + v_1^\top W_K|, \quad W_Q \to u_1 r, \quad W_K \to v_1 r",
    r"r \propto u_1^\top W_Q(0) + v_1^\top W_K(0)",
)
TURNED_KEYS = _ours(
    "opening with turned keys (extends chen2025, Theorem 3): With rotary positions attention opens with rank two",
    r"M_c = \sum_j e^{i \theta_c (j - s)} F_j \text{ for each pair c of key coordinates}, \quad \dot a = s_1(M_c) a",
    r"\frac{s_2}{s_1}(W_Q) \to \sqrt{\frac{1 - |u_1^\top u_1|}{1 + |u_1^\top u_1|}}, \quad \frac{s_3}{s_1}(W_Q) \to 0",
    hypotheses=(*_PLATEAU, "one pair c has the largest singular value"),
)
RESIDUAL_RANK = _of_plateau(
    "residual rank (sharpens chen2025, Theorem 3): How close to rank one attention is when it opens",
    r"\frac{s_2}{s_1}(W_Q) \sim \epsilon^{1 - s_2(F) / s_1(F)}",
)
PLATEAU_DEPTH = _of_plateau(
    "depth of the plateau (sharpens chen2025, Assumption 2): How close to rest the outer weights come before attention opens",
    r"\min |\nabla_{out} L| \sim \epsilon^{2 \rho / (\rho + 2 s_1)}, \quad \rho \text{ the slowest outer relaxation}",
)
FIRST_HEAD = _ours(
    "first head (after chen2025, Theorem 3): Does F tell which head of a Transformer opens first, when, and towards what?",
    r"t_{open}(h) = \frac{1}{\eta s_1(F_h)} \ln \frac{\text{level}}{a_h}",
    kind=QUESTION,
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
