r"""What [chen2026] states about stage IV, section 3.4 and Appendix D, and what we derived about it:
each statement once.

The paper treats three tokens with saturated attention: token 1 sees itself only, tokens 2 and 3
only each other. There $\theta = (\Delta\gamma, \Delta\beta)$, $s = (0, 1, -1)$, $l = (0, \frac12,
\frac12)$, $V_i = \mathrm{Var}(p_i)$, $Q_K = (k_1, k_2, k_3)$, $Q_R = (q_1, q_2, q_3)$; N and $c_1$
are those of Proposition D.2.
"""

from functools import partial

from ..statement import OURS, Statement
from . import errata

_stated = partial(Statement, "chen2026")
_ours = partial(Statement, "saccade", kind=OURS)

_LAZY = "lazy chain, P = λI + (1 - λ)1πᵀ"
_EQUAL = "rare tokens equally frequent"
_SATURATED = "saturated attention"
_DOMAIN = "(1 - λ)π₁ < 1/d"
_DOMAIN_OURS = f"(ours: {_DOMAIN}, without which there is no saturated point)"
_THREE = ("three tokens", _LAZY, _SATURATED, _DOMAIN_OURS)
_MILD = "for the rate of order δ: eq. 230 (ours: it always holds)"
_DIFFER = "rare tokens of frequencies that differ by δ"
_BELOW = "λ below its critical value"
_N = r"N = \lambda \gamma_l + (1 - \lambda) (\pi_1 \gamma_1 + (1 - \pi_1) \gamma_l)"
_C_1 = r"c_1 = \pi_1 \gamma_1^2 p_{12} + (1 - \pi_1) \gamma_l^2 p_{l2}"
_NORM = r"\sqrt{|\gamma|^2 + |\beta|^2}"
_D_DELTA_M = r"[\lambda l + (1 - \lambda) (\pi_1 e_1 + (1 - \pi_1) l)] s^\top"

PROPOSITION_3_8 = _stated(
    "Proposition 3.8",
    "Degenerate critical point: equal rare tokens leave no direction to grow",
    (
        r"\gamma_1 \gamma_l < 0: \quad A_1 = e_1, \quad A_l = (0, \frac{1}{d - 1}, \ldots, \frac{1}{d - 1})",
        r"p_1 = P_1, \quad p_l = \frac{1}{d - 1} \sum_{i \ge 2} P_i, \quad"
        r" \frac{\partial L}{\partial M} = 0, \quad \frac{\partial L}{\partial \Phi} = 0",
        r"\text{neutrally stable: the linearised flow on the rank-one manifold has no positive rate}",
    ),
    (
        _EQUAL,
        _LAZY,
        "proved for three tokens (ours: any number) and saturated attention",
        _DOMAIN_OURS,
    ),
    "section 3.4, App. D.1",
    errata=(errata.ERRATUM_2_1, errata.ERRATUM_2_2),
)
THEOREM_3_9 = _stated(
    "Theorem 3.9",
    "Asymmetry lifts degeneracy and induces a new direction",
    (
        r"\pi = (\pi_1, \frac{1 - \pi_1}{2} + \delta, \frac{1 - \pi_1}{2} - \delta): \quad"
        r" |\nabla L(\theta(\delta))| = O(\delta^3)",
        r"\mu_\perp = \Theta(\delta), \quad \mu_\parallel = O(\delta^2)",
    ),
    (*_THREE, _MILD),
    "section 3.4, eqs. 22 to 24, App. D",
    errata=(errata.ERRATUM_2_7,),
)
PROPOSITION_D_1 = _stated(
    "Proposition D.1",
    "Kernel and range bases",
    (
        r"k_1 \propto (s; 0), \quad k_2 \propto (0; 1, 1, 1), \quad k_3 \propto (-\gamma; \beta), \quad J_0 k_i = 0",
        r"q_1 \propto (-2 \gamma_l, \gamma_1, \gamma_1; 0), \quad q_2 \propto (0; s), \quad q_3 \propto (\gamma; \beta)",
    ),
    (*_THREE, _EQUAL, "|γ| = |β| and β sums to zero"),
    "App. D.2, eqs. 164 and 165",
    errata=(errata.ERRATUM_2_5,),
)
PROPOSITION_D_2 = _stated(
    "Proposition D.2",
    "Range solution and first-order expansion",
    (
        r"Q_R^\top \nabla L(Q_K x + Q_R \zeta, \delta) = 0, \quad"
        r" \zeta = \delta (0, \sqrt{2} \frac{N}{c_1}, 0) + O(\delta^2 + |x|^2)",
        rf"{_N}, \quad {_C_1}",
    ),
    (*_THREE, _DIFFER),
    "App. D.2, eqs. 166 to 169",
)
THEOREM_D_3 = _stated(
    "Theorem D.3",
    "Existence of an approximate critical point and its two-scale stability",
    (
        r"|\nabla L(Q_R \zeta(0, \delta), \delta)| = O(\delta^3)",
        r"\mu_\parallel = O(\delta^2), \quad \mu_\perp = \Theta(\delta)",
    ),
    (*_THREE, _DIFFER, _MILD),
    "App. D.2, eqs. 170 to 177",
    errata=(errata.ERRATUM_2_3,),
)
LEMMA_D_4 = _stated(
    "Lemma D.4",
    "Gradients vanish at the constructed point",
    (r"\frac{\partial L}{\partial M} = 0, \quad \frac{\partial L}{\partial \Phi} = 0",),
    (*_THREE, _EQUAL),
    "App. D.3",
)
LEMMA_D_5 = _stated(
    "Lemma D.5",
    "First-order variations of attention, predictions and gradients",
    (
        r"d A_1 = 0, \quad d A_l = \eta \gamma_l \frac{d \gamma_2 - d \gamma_3}{4} s, \quad d p_i = A_i d M \mathrm{Var}(p_i)",
        r"d \frac{\partial L}{\partial M} = \sum_i \pi_i A_i^\top d p_i, \quad d \frac{\partial L}{\partial \Phi} = 0",
    ),
    (*_THREE, _EQUAL),
    "App. D.3",
)
LEMMA_D_6 = _stated(
    "Lemma D.6",
    "Computation of J0: no direction grows on the rank-one manifold",
    (
        r"\theta^\top J_0 \theta = -\pi_1 |d \gamma_1 \beta + \gamma_1 d \beta|_{V_1}^2"
        r" - (1 - \pi_1) |\frac{d \gamma_2 + d \gamma_3}{2} \beta + \gamma_l d \beta|_{V_l}^2 \le 0",
    ),
    (*_THREE, _EQUAL),
    "App. D.3, eqs. 178 to 183",
    errata=(errata.ERRATUM_2_4,),
)
LEMMA_D_7 = _stated(
    "Lemma D.7",
    "The force of an asymmetry",
    (
        r"f_1 = N (0; s), \quad Q_R^\top f_1 = (0, \sqrt{2} N, 0)",
        rf"\frac{{\partial}}{{\partial \delta}} \frac{{\partial L}}{{\partial M}} = -{_D_DELTA_M}",
    ),
    (*_THREE, _EQUAL),
    "App. D.3, eqs. 184 to 186",
)
LEMMA_D_8 = _stated(
    "Lemma D.8",
    "Structure of Q_R^T J0 Q_R: the second direction decouples",
    (r"(Q_R^\top J_0 Q_R)_{2 \cdot} = (0, -c_1, 0), \quad \mathrm{det}(Q_R^\top J_0 Q_R) \ne 0",),
    (*_THREE, _EQUAL),
    "App. D.3, eq. 187",
)
LEMMA_D_9 = _stated(
    "Lemma D.9",
    "The mixed operator: how an asymmetry changes the Jacobian",
    (
        r"J_1 = \frac{\partial J_0}{\partial \delta}, \quad (J_1)_{\gamma \gamma} = -|\beta|_{V_l}^2 \mathrm{diag}(s)",
        rf"(J_1)_{{\gamma \beta}} = -\gamma_l s (V_l \beta)^\top + {_D_DELTA_M}, \quad (J_1)_{{\beta \beta}} = 0",
    ),
    (*_THREE, _EQUAL),
    "App. D.3, eqs. 188 to 195",
)
LEMMA_D_10 = _stated(
    "Lemma D.10",
    "The mixed operator on the second range direction",
    (rf"Q_K^\top J_1 q_2 = -\frac{{\sqrt{{2}}}}{{{_NORM}}} (0, 0, N)",),
    (*_THREE, _EQUAL),
    "App. D.3",
)
LEMMA_D_11 = _stated(
    "Lemma D.11",
    "Second differential: the gradient to second order",
    (r"-\nabla L = J_0 \theta + \frac{1}{2} B(\theta, \theta) + O(|\theta|^3)",),
    (*_THREE, _EQUAL),
    "App. D.3, eqs. 196 and 197; blocks of B in eqs. 199 to 223",
)
LEMMA_D_12 = _stated(
    "Lemma D.12",
    "The variance of a rare token's attention does not change to first order",
    (
        r"A_l = (0, \frac{1}{2}, \frac{1}{2}), \quad d A_l = (0, a, -a) \Rightarrow d \mathrm{Var}(A_l) = 0",
    ),
    (*_THREE, _EQUAL),
    "App. D.3, eq. 198",
)
LEMMA_D_13 = _stated(
    "Lemma D.13",
    "The second differential on the second range direction",
    (rf"\frac{{1}}{{2}} Q_K^\top B(q_2, q_2) = \frac{{1}}{{{_NORM}}} (0, 0, c_1)",),
    (*_THREE, _EQUAL),
    "App. D.3, eqs. 224 to 227",
)
LEMMA_D_14 = _stated(
    "Lemma D.14",
    "The force of an asymmetry has no second-order term",
    (r"f_2 = \frac{\partial^2}{\partial \delta^2} (-\nabla L) = 0",),
    (*_THREE, _EQUAL),
    "App. D.3",
)
LEMMA_D_15 = _stated(
    "Lemma D.15",
    "Perturbed hessian matrix",
    (
        r"J_{pert} = J_0 + H_1 + O(\delta^2), \quad \frac{H_1}{\delta} = J_1 - \frac{N}{c_1} G",
        r"G_{\gamma \gamma} = 0, \quad G_{\gamma \beta} = (r_1, r_2, r_2)^\top s^\top, \quad"
        r" r_1 = \pi_1 \gamma_1 p_{12} [2 + \gamma_1 (\beta_2 - p_1 \cdot \beta)],"
        r" \quad r_2 = (1 - \pi_1) \gamma_l p_{l2} [1 + \frac{\gamma_l}{2} (\beta_2 - p_l \cdot \beta)]",
        r"G_{\beta \beta} = \pi_1 \gamma_1^3 K(p_1) + (1 - \pi_1) \gamma_l^3 K(p_l),"
        r" \quad K(p) = p_2 \mathrm{diag}(s) - p_2 (p s^\top + s p^\top)",
    ),
    (*_THREE, _DIFFER),
    "App. D.3, eqs. 228 and 229",
)
LEMMA_D_16 = _stated(
    "Lemma D.16",
    "The kernel block of the perturbed Hessian vanishes to first order",
    (r"Q_K^\top H_1 Q_K = 0",),
    (*_THREE, _DIFFER),
    "App. D.3",
)
LEMMA_D_17 = _stated(
    "Lemma D.17",
    "An asymmetry leaves a gradient of its own size in M, none in Φ",
    (
        r"\frac{\partial L}{\partial M} = \delta [\frac{N}{c_1} (\pi_1 \gamma_1 p_{12} e_1 + (1 - \pi_1) \gamma_l p_{l2} l) s^\top"
        rf" - {_D_DELTA_M}] + O(\delta^2), \quad \frac{{\partial L}}{{\partial \Phi}} = O(\delta^2)",
        r"\text{if } \frac{N}{c_1} (1 - \pi_1) \gamma_l p_{l2} \ne \lambda + (1 - \pi_1) (1 - \lambda)",
    ),
    (*_THREE, _DIFFER),
    "App. D.3, eq. 230",
    errata=(errata.ERRATUM_2_8,),
)

TWO_GROUP_POINT = _ours(
    "two-group point",
    "Saturated attention has an exact critical point for any rare frequencies",
    (
        r"\gamma_1, \gamma_l, \beta \text{ minimise } \pi_1 H(P_1, \mathrm{softmax}(\gamma_1 \beta)) + (1 - \pi_1)"
        r" H(w \cdot P, \mathrm{softmax}(\gamma_l \beta)), \quad w = \frac{(0, \pi_2, \ldots, \pi_d)}{1 - \pi_1}",
        r"\nabla L = 0, \quad \frac{\partial L}{\partial \Phi} = 0, \quad"
        r" \frac{\partial L}{\partial M} = \pi_1 (e_1 - \frac{\gamma_1}{\gamma_l} w) (p_1 - P_1)^\top",
        r"\mu_\perp = \pi_1 |p_1 - P_1| \sqrt{1 + (\frac{\gamma_1}{\gamma_l})^2 |w|^2}, \quad \mu_\parallel = 0",
    ),
    ("any chain with stationary distribution π", _SATURATED, "γ₁γ_l < 0 at the minimum"),
    "extends chen2026, Theorem 3.9, to any number of tokens and any asymmetry",
)
SATURATED_RATE = _ours(
    "opening rate under saturated attention",
    "The rate of the new direction in closed form; it is never zero",
    (
        r"\frac{\mu_\perp}{|\delta c|} = \frac{b |x_1 / x_l| (1 - \lambda) \pi_1 + a (\lambda + (1 - \lambda) (1 - \pi_1))}{a + b}"
        r" \sqrt{\frac{1}{d - 1} + \frac{x_l^2}{x_1^2}} + O(\delta)",
        r"\text{the first term is never zero; exact at any } \delta \text{: the two-group point}",
        r"a = \pi_1 x_1^2 P_{1l}, \quad b = (1 - \pi_1) x_l^2 P_{ll}, \quad x_1 = \ln \frac{P_{11}}{P_{1l}},"
        r" \quad x_l = \ln \frac{p}{P_{ll}}, \quad p = P_{l1}",
    ),
    ("frequencies of rare tokens off their mean by δc", _LAZY, _SATURATED, _DOMAIN),
    "sharpens chen2026, Theorem 3.9 and Lemma D.17; `two_group_rate` is exact",
)
SATURATED_DESCENT = _ours(
    "sixth-order descent",
    "Above the critical λ the saturated point is not a minimum: loss falls as x⁶",
    (
        r"\min_{\gamma_1, m, \beta} L - L_0 = \frac{\eta^2 |x|^6}{2 (d - 1)^2}"
        r" [\pi_l p (1 - p) (\beta_1 - \beta_l)^2 - \frac{\lambda^2 \pi_l^2}{S}]"
        r" (1 + 2 \eta \gamma_l \frac{\sum_j x_j^3}{|x|^2}) + O(|x|^8)",
        r"\text{rare tokens at } m + x_j, \quad \sum_j x_j = 0, \quad \text{scale of } \beta \text{ held}",
        r"S = \pi_1 \gamma_1^2 P_{1l} + (1 - \pi_1) \gamma_l^2 P_{ll}",
    ),
    (_EQUAL, _LAZY, _SATURATED, _DOMAIN),
    "corrects chen2026, Lemma D.6, which calls the point a degenerate local minimum",
)
AVERAGES = _ours(
    "averages are enough",
    "On the rank-one manifold the loss sees attention through one average per query",
    (
        r"L = -\sum_i \pi_i P_i \cdot \ln \mathrm{softmax}(h_i \beta), \quad h_i = A_i \cdot \gamma",
        r"\nabla L = 0 \text{ if } (P_i - p_i) \cdot \beta = 0 \text{ for all } i, \quad \sum_i \pi_i h_i (P_i - p_i) = 0;"
        r" \quad \text{then } \frac{\partial L}{\partial \Phi} = 0",
    ),
    ("rank-one weights", "any chain with stationary distribution π"),
    "extends chen2026, Propositions 3.6 and 3.8, to any strength of attention",
)
DEGENERATE_POINT = _ours(
    "degenerate point at finite attention",
    "Equal rare tokens: both gradients vanish; asymmetry opens a direction",
    (
        r"\text{equal rare tokens: } \frac{\partial L}{\partial M} = 0, \quad \frac{\partial L}{\partial \Phi} = 0",
        r"\text{frequencies that differ by } \delta \text{: } \mu_\perp = s_1(\frac{\partial L}{\partial M}) ="
        r" \Theta(\delta), \quad \mu_\parallel = 0",
    ),
    (_LAZY, _BELOW),
    "extends chen2026, Proposition 3.8 and Theorem 3.9, to finite attention",
)
ESCAPE_TIME = _ours(
    "escape time",
    "The closer the rare tokens, the longer the stall; equal ones never leave",
    (
        r"\frac{d t_{esc}}{d \ln(1/\epsilon)} = \frac{1}{\mu_0} + \frac{1}{c} + \frac{1}{s_1(B)}, \quad s_1(B) \propto \delta",
    ),
    (_DIFFER, _LAZY, _BELOW, "small random start"),
    "follows from the degenerate point at finite attention",
)
CRITICAL_STAY = _ours(
    "critical stay",
    "Above a critical λ equal rare tokens separate by themselves",
    (
        r"\lambda^2 \pi_l > [\pi_1 x_1^2 P_{1l} + (1 - \pi_1) x_l^2 P_{ll}] p (1 - p)",
        r"x_1 = \ln \frac{P_{11}}{P_{1l}}, \quad x_l = \ln \frac{p}{P_{ll}}, \quad p = P_{l1}",
    ),
    (_EQUAL, _LAZY),
    "corrects chen2026, Proposition 3.8, which calls the point neutrally stable for every λ",
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
