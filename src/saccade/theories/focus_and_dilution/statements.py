r"""What Focus and Dilution [chen2026] states, and what we derived about it: each statement once,
letters as NOTATION.md lists them.

The paper's Propositions 3.3, 3.4, 3.6 and 3.8, its Theorem 3.7 and all of Appendix C from Lemma C.1
on assume equally frequent low tokens, Proposition 3.8 also saturated attention. What holds for any
stationary law or at finite attention is ours; its `place` says what it extends. Formulas are as
printed; where they are wrong, both forms are in `errata.py`. Angle brackets are averages over
$\pi$. Not here: what is computed from the formulas (the other modules of this folder).
"""

from functools import partial

from ..statement import FIGURE, OURS, Statement
from . import errata

_stated = partial(Statement, "chen2026")
_shown = partial(Statement, "chen2026", kind=FIGURE)
_ours = partial(Statement, "saccade", kind=OURS)

_SMALL = "small random start"
_ANY = "any chain with stationary distribution π"
_EQUAL = "rare tokens equally frequent"
_LAZY = "lazy chain, P = λI + (1 - λ)1πᵀ"
_FLOW = "population gradient flow"
_CONDENSED = "rank-one weights near the unigram point"
_RATE = r"c = \frac{|\zeta|}{|\pi|^5} (\sum_i \pi_i^2 \zeta \cdot (P_i - \pi)) (\sum_j \pi_j^3 - |\pi|^4)"

DEFINITION_2_1 = _stated(
    "Definition 2.1",
    "Markovian data: a chain that repeats its token or draws a new one",
    (
        r"x_1 \sim \text{uniform}, \quad x_{j+1} \sim P_{x_j}, \quad P = \lambda I + (1 - \lambda) 1 \pi^\top,"
        r" \quad 0 < \lambda < 1",
        r"\pi_i = \frac{1 - \pi_1}{d - 1} + c_i \delta \text{ for } i \ge 2, \quad \frac{1 - \pi_1}{d - 1} < \pi_1 < 1,"
        r" \quad \sum_{i \ge 2} c_i = 0",
    ),
    ("a definition, not a result",),
    "section 2.2, eqs. 1 and 2",
)
DEFINITION_2_2 = _stated(
    "Definition 2.2",
    "One-layer transformer: attention on embeddings, no positions, no value matrix",
    (
        r"f = \mathrm{softmax}(Z W_Q W_K^\top Z^\top) Z W_1, \quad Z = E_X W_0",
        r"L = -\frac{1}{N} \sum_i \ln \mathrm{softmax}(f(X_i)_s)_{y_i}",
    ),
    ("a definition, not a result", "logits not divided by the root of the width"),
    "section 2.2, eq. 3",
)
PROPOSITION_2_3 = _stated(
    "Proposition 2.3",
    "Gradient flow and population-gradient limit: only token frequencies matter",
    (
        r"\text{attention: } A_{ij} = \frac{\pi_j e^{\Phi_{ij}}}{\sum_k \pi_k e^{\Phi_{ik}}},"
        r" \quad \Phi = W_0 W_Q W_K^\top W_0^\top, \quad M = W_0 W_1",
        r"\text{loss: } L = -\sum_i \pi_i \sum_j P_{ij} \ln p_{ij}, \quad p_i = \mathrm{softmax}(A_i M)",
        r"\frac{\partial L}{\partial M} = -\sum_i \pi_i A_i^\top (P_i - p_i), \quad"
        r" \frac{\partial L}{\partial \Phi} = -\sum_i \pi_i e_i (P_i - p_i) M^\top \mathrm{Var}(A_i)",
        r"\dot W_0 = -\frac{\partial L}{\partial M} W_1^\top - \frac{\partial L}{\partial \Phi} W_0 W_K W_Q^\top"
        r" - (\frac{\partial L}{\partial \Phi})^\top W_0 W_Q W_K^\top, \quad \dot W_1 = -W_0^\top \frac{\partial L}{\partial M}",
        r"\dot W_Q = -W_0^\top \frac{\partial L}{\partial \Phi} W_0 W_K, \quad"
        r" \dot W_K = -W_0^\top (\frac{\partial L}{\partial \Phi})^\top W_0 W_Q",
    ),
    ("infinitely many sequences of infinite length",),
    "section 2.3, eqs. 4 and 5, App. B.2",
)
LEMMA_3_1 = _stated(
    "Lemma 3.1",
    "Linearization near a saddle point: the fastest direction of the linear flow wins",
    (
        r"|F(\theta^* + \Delta) - J \Delta| \le L |\Delta|^2 \text{ for } |\Delta| \le r,"
        r" \quad |\Delta(0)| = \epsilon \le \frac{r}{2}",
        r"|\Delta(t) - e^{J t} \Delta(0)| \le C \epsilon^2 e^{2 \mu t}, \quad C = \frac{4 K^3 L}{\mu},"
        r" \quad |e^{J t}| \le K e^{\mu t}",
        r"\frac{\Delta(t)}{|\Delta(t)|} \to \pm v_u \text{ for } t \to \infty, \epsilon e^{\mu t} \to 0",
    ),
    (
        "F twice differentiable, F(θ*) = 0",
        "as printed: as long as the linear flow is smaller than r/2",
        "for the direction: J symmetric, its largest eigenvalue positive and simple, the start not orthogonal to its mode",
    ),
    "section 3.1, eqs. 6 to 8, App. C.1",
    errata=(errata.ERRATUM_1_3, errata.ERRATUM_1_4),
)
THEOREM_3_2 = _stated(
    "Theorem 3.2",
    "Initial condensation: embedding and projection turn to one direction",
    (
        r"-\frac{\partial L}{\partial M} = \pi (\pi - \frac{1}{d})^\top,"
        r" \quad \frac{\partial L}{\partial \Phi} = 0 \text{ at the origin}",
        r"\frac{W_0}{|W_0|} \to \frac{\pi}{|\pi|} \alpha_1^\top,"
        r" \quad \frac{W_1}{|W_1|} \to \alpha_1 \frac{(\pi - 1/d)^\top}{|\pi - 1/d|}",
        r"\text{at } t = \Theta(\ln \frac{1}{\epsilon}), \quad |W_Q|, |W_K| = O(\epsilon)",
    ),
    (_SMALL, _FLOW, "rephrased from Theorem 2 of Chen and Luo (2025)"),
    "section 3.1, eqs. 9 to 11, App. C.1",
    errata=(errata.ERRATUM_1_2,),
)
PROPOSITION_3_3 = _stated(
    "Proposition 3.3",
    "Existence of a second critical point on the condensation ray",
    (
        r"W_0 = \kappa_1 \frac{\pi}{|\pi|} \alpha_1^\top, \quad W_1 = \kappa_1 \alpha_1 \frac{(\pi - 1/d)^\top}{|\pi - 1/d|},"
        r" \quad W_Q = W_K = 0, \quad p_i = \pi",
        r"\kappa_1^2 = \theta_c = \frac{1}{c_\pi} \ln \frac{(d - 1) \pi_1}{1 - \pi_1}, \quad c_\pi ="
        r" \frac{|\pi| (\pi_1 - \pi_l)}{|\pi - 1/d|} = |\pi| \sqrt{\frac{d}{d - 1}}",
    ),
    (_EQUAL,),
    "section 3.2, eq. 12, App. C.2, eqs. 100 and 104",
    errata=(errata.ERRATUM_1_8,),
)
PROPOSITION_3_4 = _stated(
    "Proposition 3.4",
    "Linearized dynamics and its unique unstable direction: only attention grows",
    (
        r"\dot{\delta W_Q} = c \alpha \alpha^\top \delta W_K, \quad \dot{\delta W_K} = c \alpha \alpha^\top \delta W_Q,"
        r" \quad J_{out} \text{ negative semi-definite}",
        r"c = \frac{\lambda \kappa_1^4 (\pi^\top \mathrm{Var}(\pi) \pi)^2}{|\pi - 1/d| |\pi|^3}",
    ),
    (_EQUAL, _LAZY, "near the second critical point"),
    "section 3.2, eqs. 13 and 14, App. C.2, eqs. 138 to 146",
    errata=(errata.ERRATUM_1_1, errata.ERRATUM_1_2),
)
THEOREM_3_5 = _stated(
    "Theorem 3.5",
    "High frequency token bias: every query turns to the frequent tokens",
    (
        r"\frac{W_Q}{|W_Q|}, \frac{W_K}{|W_K|} \to \alpha \tilde \alpha^\top",
        r"\frac{\Phi}{|\Phi|} = \pi \pi^\top \text{ for } W_Q = W_K = \kappa \alpha \tilde \alpha^\top",
        r"A_i \to e_1 \text{ for } \kappa \to \infty, \quad W_0, W_1 \text{ fixed}",
    ),
    (
        f"{_EQUAL} (ours: any frequencies)",
        "flow within ε of the second point",
        "generic W_Q, W_K",
        "eq. 17: frozen embeddings",
    ),
    "section 3.2, eqs. 15 to 17, stated without proof",
    errata=(errata.ERRATUM_1_5, errata.ERRATUM_1_11),
)
PROPOSITION_3_6 = _stated(
    "Proposition 3.6",
    "Invariant rank-one manifold: weights of rank one stay of rank one",
    (
        r"W_0 = \gamma \alpha^\top, \quad W_1 = \alpha \beta^\top, \quad W_Q = \lambda_Q \alpha \tilde \alpha^\top,"
        r" \quad W_K = \lambda_K \alpha \tilde \alpha^\top",
        r"\gamma_2 = \ldots = \gamma_d, \quad \beta_2 = \ldots = \beta_d \text{ stay equal}",
    ),
    (_FLOW, "for the second line: rare tokens equally frequent (the paper assumes it for both)"),
    "section 3.3, eqs. 18 to 20, App. C.3, eqs. 147 and 148",
    errata=(errata.ERRATUM_1_10,),
)
THEOREM_3_7 = _stated(
    "Theorem 3.7",
    "Mass redistribution: attention moves embedding mass to the frequent token",
    (
        r"(1 - \pi_1) \gamma_1 - (d - 1) \pi_1 \gamma_i \propto e^{c t} \text{ for } i \ne 1",
        r"\frac{d}{d t} ((1 - \pi_1) \gamma_1 - (d - 1) \pi_1 \gamma_i) = 3 \lambda \pi_1^2 (1 - \pi_1)^2 \Delta \beta"
        r" (\Delta \gamma)^2 \eta",
        r"\eta = \lambda_Q \lambda_K = \eta(0) e^{c t} \text{, where } c \text{ is twice the } c \text{ of Proposition 3.4}",
    ),
    (_EQUAL, _LAZY, "linearised at the second critical point"),
    "section 3.3, eq. 21, App. C.3, eqs. 149 to 159",
    errata=(errata.ERRATUM_1_6, errata.ERRATUM_1_7),
)
PROPOSITION_B_1 = _stated(
    "Proposition B.1",
    "Basic Markov properties: the chain forgets its start",
    (
        r"\mu_0^\top P^t \to \pi^\top, \quad P^t = 1 \pi^\top + \lambda^t (I - 1 \pi^\top)",
        r"\text{token frequencies} \to \pi, \quad \text{mean time of return to } i = \frac{1}{\pi_i}",
    ),
    (_LAZY, "every π positive"),
    "App. B.1, eqs. 25 to 28",
)
LEMMA_C_1 = _stated(
    "Lemma C.1",
    "Refined error estimate: what does not condense stays of the size of the start",
    (
        r"|W_Q| + |W_K| \le C \epsilon, \quad |R_0| + |R_1| \le C \epsilon \text{ for } t \le \min(T_1, T_p)",
        r"R_0 = (I - q q^\top) W_0, \quad R_1 = W_1 (I - u u^\top), \quad q = \frac{\pi}{|\pi|}, \quad"
        r" u = \frac{\pi - 1/d}{|\pi - 1/d|}",
        r"|\frac{\partial L}{\partial \Phi} W_0 W_{QK}^\top| \lesssim W_{out}^3 W_{in}^2, \quad"
        r" |W_0^\top \frac{\partial L}{\partial \Phi} W_0 W_K| \lesssim W_{out}^4 W_{in}",
    ),
    (_EQUAL, _SMALL),
    "App. C.1, eqs. 61 to 77",
)
PROPOSITION_C_2 = _stated(
    "Proposition C.2",
    "The linear flow is accurate until the weights have grown to ε^(1/n)",
    (
        r"T_p = \frac{1 - 1/n}{|\pi| |\pi - 1/d|} \ln \frac{1}{\epsilon} \le T_1 = \sup (t: W_{out} \lesssim \epsilon^{1/n})",
        r"|a - \tilde a| + |b - \tilde b| \lesssim \epsilon^{2/n}, \quad a = q^\top W_0, \quad b = W_1 u",
    ),
    (_EQUAL, _SMALL, "an integer n > 1"),
    "App. C.1, eqs. 74, 75 and 80 to 86",
)
REMARK_C_3 = _stated(
    "Remark C.3",
    "Off the ray this is sharper than Lemma 3.1",
    (
        r"|R_0| + |R_1| = O(\epsilon) \text{ at } T_p \text{, where Lemma 3.1 allows } \epsilon^2 e^{2 \mu T_p} = \epsilon^{2/n}",
    ),
    (_EQUAL, _SMALL),
    "App. C.1, after Proposition C.2",
)
LEMMA_C_4 = _stated(
    "Lemma C.4",
    "Refined error estimate up to the critical point",
    (
        r"|W_Q| + |W_K| \le C \epsilon^{2/3}, \quad |R_0| + |R_1| \le C \epsilon \text{ for } t \le \min(T_2, T_3, T_d)",
    ),
    (_EQUAL, _SMALL),
    "App. C.1, eqs. 88 to 92, stated without proof",
)
PROPOSITION_C_5 = _stated(
    "Proposition C.5",
    "Both amplitudes on the ray grow until the critical point",
    (
        r"z = \langle a, b \rangle \text{ and } |a|^2 + |b|^2 \text{ increase for } T_p \le t \le \min(T_2, T_3, T_d)",
        r"(1 - \epsilon^{1/n}) \frac{|a|^2 + |b|^2}{2} \le z \le \frac{|a|^2 + |b|^2}{2}",
    ),
    (_EQUAL, _SMALL),
    "App. C.1, eqs. 93 to 99",
)
PROPOSITION_C_6 = _stated(
    "Proposition C.6",
    "Time to the O(delta)-neighborhood of the critical point",
    (
        r"(2 - \epsilon^{1/2n}) c_\pi z G(z) \le \dot z \le (2 + \epsilon^{1/2n}) c_\pi z G(z),"
        r" \quad G(z) = \pi_1 - \frac{1}{1 + (d - 1) e^{-c_\pi z}}",
        r"T_2 - T_p = \frac{1}{2 c_\pi} \int_{z(T_p)}^{z_\delta} \frac{d z}{z G(z)} + o(1) ="
        r" \frac{1}{n \mu_0} \ln \frac{1}{\epsilon} + \frac{1}{\rho} \ln \frac{1}{\delta} + O(1)",
        r"\rho = 2 c_\pi^2 \theta_c \pi_1 (1 - \pi_1), \quad G(z_\delta) = \delta",
    ),
    (_EQUAL, "z(T_p) of the order of ε^(2/n)"),
    "App. C.1, eqs. 100 to 126",
    errata=(errata.ERRATUM_1_9,),
)
PROPOSITION_C_7 = _stated(
    "Proposition C.7",
    "Derivatives at the second critical point: both are explicit",
    (
        r"\frac{\partial L}{\partial \Phi} = -\lambda \kappa_1^2 \mathrm{Var}(\pi) u q^\top \mathrm{Var}(\pi)",
        r"\delta \frac{\partial L}{\partial M} = \pi \pi^\top \delta M \mathrm{Var}(\pi)",
    ),
    (_EQUAL, _LAZY),
    "App. C.2, eqs. 129 to 137",
)
OTHER_CHAINS = _shown(
    "section 4.1",
    "Other chains with the same token frequencies pass through the same stages",
    (r"\pi^\top P = \pi^\top",),
    ("four transition matrices with one stationary distribution",),
    "section 4.1",
)
FIG_2 = _shown(
    "Fig. 2",
    "Condensation, joint focus, dilution, a new direction, and again",
    (),
    ("four tokens, λ = 0.8, Adam",),
    "section 4.1, App. E.1",
    errata=(errata.ERRATUM_2_6, errata.ERRATUM_2_9),
)
FIG_3 = _shown(
    "Fig. 3",
    "On text the words of a probe focus together, dilute, and end on themselves",
    (),
    ("WikiText and TinyStories, one epoch, Adam",),
    "section 4.2",
)

FINITE_CONTEXTS = _ours(
    "finite contexts",
    "Short contexts remember the start; their frequencies are off by a known amount",
    (
        r"x_s \sim \mu_s = \pi + \lambda^{s - 1} (\frac{1}{d} - \pi)",
        r"E |f - \pi|^2 = \frac{1}{s^2} \sum_{t=1}^{s} (1 - 2 \pi \cdot \mu_t + |\pi|^2) (1 + 2 \sum_{k=1}^{s-t} \lambda^k)"
        r", \quad f \text{ token frequencies}",
    ),
    (_LAZY, "first token uniform"),
    "what chen2026, Proposition 2.3, leaves out at finite length",
)
CONTEXT_RATE = _ours(
    "rate of the population limit",
    "At length s the gradient is off its limit by 1/s times a known matrix",
    (
        r"s (E \nabla L_s - \nabla L) \to \sum_i \pi_i (m_i \cdot \frac{\partial g_i}{\partial f}"
        r" + \frac{1}{2} C : \frac{\partial^2 g_i}{\partial f^2}), \quad g_i(f) \text{ the gradient after token } i"
        r" \text{ with frequencies } f",
        r"C = D Z + Z^\top D - D - \pi \pi^\top, \quad D = \mathrm{diag}(\pi), \quad Z = (I - P + 1 \pi^\top)^{-1},"
        r" \quad m_i = (Z' - 1 \pi^\top)_i + \frac{1}{d} 1^\top Z - \pi^\top",
        r"Z' \text{: the same of the chain run backwards, } \pi_j P_{ji} / \pi_i",
    ),
    (_ANY, "first token uniform", "rarest token j visited often: n = s π_j² / C_jj large"),
    "sharpens chen2026, Proposition 2.3, which states no rate",
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
    "Initial weights decide the direction over the width, and how long stage I lasts",
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
ARRIVAL_FROM_THE_START = _ours(
    "arrival from the start alone",
    "Initial weights predict when the unigram point is reached, without an O(1) error",
    (
        r"T_2 = \int_0^{\tau_\delta} (\frac{1}{g} + \frac{h - \eta E}{g^2}) d \tau, \quad g = c_\pi G(z),"
        r" \quad z(\tau) = |s|^2 e^{2 \tau} - |r|^2 e^{-2 \tau}, \quad s, r = \frac{a(0) \pm b(0)}{2}",
        r"h = \frac{|\pi|^2 p_l}{2 |s|^2} s^\top R_1 R_1^\top (s e^{-2 \phi} + r e^{-2 \tau}) \text{: the cost of the projection"
        r" off the ray}, \quad \frac{d \phi}{d \tau} = |\pi|^2 p_l \frac{z}{g}",
        r"E = z v [2 (\lambda w + g) - |\pi|^2 z u^\top \mathrm{Var}(p) u] \text{: the help of attention}, \quad"
        r" \eta = \frac{1}{4} (|x + y|^2 e^{2 K} - |x - y|^2 e^{-2 K}), \quad \frac{d K}{d \tau} = \frac{z^2 v (\lambda w + g)}{g}",
        r"x, y = \frac{s^\top W_Q(0)}{|s|}, \frac{s^\top W_K(0)}{|s|}, \quad v = q^\top \mathrm{Var}(\pi) q, \quad"
        r" w = q^\top \mathrm{Var}(\pi) u",
        r"\text{leading order: } T_2 = \frac{1}{2 c_\pi} (\frac{\ln(z_\delta / z_0)}{\pi_1 - 1/d}"
        r" + \int_0^{z_\delta} (\frac{1}{G(z)} - \frac{1}{G(0)}) \frac{d z}{z}) + O(\epsilon^2),"
        r" \quad z_0 = \frac{|a(0) + b(0)|^2}{4}",
    ),
    (
        _EQUAL,
        _LAZY,
        _SMALL,
        "ε² small compared with π₁ - 1/d and, once attention has grown, with δ: (h - ηE)/g small",
    ),
    "sharpens chen2026, Proposition C.6",
)
SHARPER_ORDERS = _ours(
    "orders of the transition",
    "Errors of the transition fall faster than the paper's bounds",
    (
        r"|a - \tilde a| + |b - \tilde b| \sim \epsilon^{3/n} \text{ at } T_p, \quad |W_Q| + |W_K| \sim \epsilon \text{ at } T_2",
    ),
    (_EQUAL, _SMALL),
    "sharpens chen2026, eq. 85 and Lemma C.4",
)
FROZEN_PARTS = _ours(
    "parts that never move",
    "Row sums of the projection are conserved; without attention so is W_0 off π",
    (r"W_1 1 = \text{const}, \quad W_Q = W_K = 0 \Rightarrow R_0(t) = R_0(0)",),
    (_ANY, _FLOW),
    "sharpens chen2026, Lemma C.1",
)
UNIGRAM_POINT = _ours(
    "unigram point",
    "The critical point after condensation predicts token frequencies",
    (
        r"W_0 = \gamma \alpha^\top, \quad \gamma = \kappa_1 \frac{\pi}{|\pi|}, \quad W_1 = \alpha \beta^\top,"
        r" \quad \beta = \frac{\zeta}{\kappa_1 |\pi|}, \quad W_Q = W_K = 0",
        r"\zeta_i = \ln \pi_i - \frac{1}{d} \sum_j \ln \pi_j, \quad \kappa_1 = \sqrt{\frac{|\zeta|}{|\pi|}}, \quad p_i = \pi,"
        r" \quad L = -\sum_j \pi_j \ln \pi_j",
    ),
    (_ANY,),
    "extends chen2026, Proposition 3.3, to any stationary distribution",
)
ATTENTION_RATE = _ours(
    "growth rate of attention",
    "At the unigram point queries and keys grow at the rate |c|, nothing else does",
    (r"\dot W_Q = c \alpha \alpha^\top W_K, \quad \dot W_K = c \alpha \alpha^\top W_Q", _RATE),
    (_ANY, _CONDENSED),
    "extends chen2026, Proposition 3.4, to any stationary distribution",
)
SPECTRA = _ours(
    "spectra of both critical points",
    "Every growth rate at the origin and at the unigram point, with multiplicity",
    (
        r"\text{origin: } \pm \mu_0 \text{, each } m \text{-fold},"
        r" \quad J_{att}: \pm c \text{, each } d_k \text{-fold (key width } d_k \text{); all others } 0",
        r"J_{out}: \text{ eigenvalues of } -|\pi|^2 (\kappa_1^2 I + \beta \beta^\top) \mathrm{Var}(\pi)",
        r"\text{equal rare tokens: } -\rho \text{ once}, \quad -\kappa_1^2 |\pi|^2 \pi_l \text{, } (d - 2) \text{-fold}",
    ),
    (_ANY,),
    "completes chen2026, Proposition 3.4",
)
LOGIT_SCALE = _ours(
    "logit scale",
    "Logits times s act as an attention rate times s, from queries and keys times √s",
    (
        r"\Phi = s W_0 W_Q W_K^\top W_0^\top: \quad (W_0, \sqrt{s} W_Q, \sqrt{s} W_K, W_1) \text{ move as without } s,"
        r" \text{ queries and keys at the rate } s",
        r"\text{at the unigram point } \dot W_Q = s c \alpha \alpha^\top W_K",
    ),
    (_ANY, _FLOW),
    "extends chen2026, Definition 2.2 and Proposition 3.4, which have no scale",
)
FIRST_ORDER_ATTENTION = _ours(
    "attention of first order",
    "How far each query tilts to each token, given the strength of attention",
    (r"A_{ij} \approx \pi_j (1 + \eta \gamma_i (\gamma_j - \langle \gamma \rangle))",),
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
    "The drive, summed over condensation, decides which way attention first moves",
    (r"D = \mathrm{Var}_\pi(\gamma) \sum_i \pi_i \gamma_i (P_i - \pi) \cdot \beta",),
    (_ANY, "rank-one weights", "gradient flow or plain descent"),
    "extends the sign rule to attention that does not wait",
)
TOKEN_DRIFT = _ours(
    "drift of each token",
    "Growing attention moves the embedding of each token by a known amount",
    (
        r"F_j = 2 k \pi_j (\gamma_j - \langle \gamma \rangle) + \pi_j (P_j - \pi) \cdot \beta"
        r" \mathrm{Var}_\pi(\gamma), \quad \sum_j F_j = 0",
        r"k = \sum_i \pi_i \gamma_i (P_i - \pi) \cdot \beta,"
        r" \quad \delta \gamma_\perp(t) = \frac{\eta(t)}{2 c} F_\perp, \quad \eta \sim e^{2 c t}",
    ),
    (_ANY, _CONDENSED),
    "extends chen2026, Theorem 3.7, to any stationary distribution",
)
CONTRAST = _ours(
    "contrast without a clock",
    "How much mass has moved depends on the strength of attention alone",
    (
        r"(1 - \pi_1) \gamma_1 - (d - 1) \pi_1 \gamma_l = \frac{3 |\pi| (\eta(t) - \eta(0))}{2 \kappa_1 (\pi_1 - \pi_l)}",
    ),
    (_EQUAL, _LAZY, _CONDENSED),
    "closed form of chen2026, eq. 159",
)
TURNING_RULE = _ours(
    "turning rule",
    "A query's focus peaks when its embedding is half gone; rare tokens turn first",
    (
        r"\Phi_{i1} = \eta \gamma_i(\eta) \gamma_1, \quad \gamma_i(\eta) = \gamma_i - \frac{|F_i|}{2 c} \eta",
        r"\text{peak at } \eta \approx \frac{c \gamma_i}{|F_i|},"
        r" \quad \text{focus gone at } \eta \approx \frac{2 c \gamma_i}{|F_i|}",
    ),
    (_ANY, _CONDENSED),
    "follows from the drift of each token",
)
NEXT_DIRECTION = _ours(
    "next-direction rule",
    "One matrix of gradients gives the next direction and its growth rate",
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
    "Focus and dilution repeat until the embedding has d - 1 directions",
    (r"\mathrm{rank} W_0 \le d - 1",),
    (_FLOW, _SMALL),
    "extends chen2026, section 4.1",
)
ADAM_FOCUS = _ours(
    "focus under Adam",
    "With mini-batches Adam focuses on the frequent token far more than the flow",
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
