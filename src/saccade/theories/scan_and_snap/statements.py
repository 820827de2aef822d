r"""What Scan and Snap [tian2023] states, and what we derived about it: each statement once, letters
as NOTATION.md lists them.

Formulas are as printed; where a printed form is wrong, both forms are in `errata.py`. "The theory's
flow" is the one that the paper's closed forms describe: the decoder by the modified gradient (eq.
26), attention by Lemma 4. In "plain descent" the decoder follows the gradient itself (eq. 7). Not
here: what is computed from the formulas (the other modules of this folder).
"""

from functools import partial

from ..statement import FIGURE, OURS, Statement
from . import errata

_stated = partial(Statement, "tian2023")
_shown = partial(Statement, "tian2023", kind=FIGURE)
_ours = partial(Statement, "saccade", kind=OURS)

_WEAK = "weak correlations (Assumption 2)"
_MODIFIED = "the theory's flow (eq. 26 and Lemma 4)"
_PLAIN = "plain descent (eq. 7)"
_ZERO = "Y(0) = Z(0) = 0"
_LONG = "contexts of infinite length"
_ONE_COMMON = "one common token, one query"
_ATTENTION = r"c_{l|n} = \frac{P(l|n) e^{z_{ml}}}{\sum_{l'} P(l'|n) e^{z_{ml'}}}"
_ENTROPY = r"H = -\sum_l a_l \ln a_l, \quad a_l = \frac{c_{l|n}}{\sum_{l'} c_{l'|n}}"
_ROW_ENTROPY = r"H = -\sum_j b_j \ln b_j"
_RECALL = r"R(\theta) = \frac{\text{distinct tokens with } a_l > \theta}{\text{distinct tokens}}, \quad a = \mathrm{softmax}(z_m)"

DATA_MODEL = _stated(
    "section 3",
    "The tokens of a context are drawn independently, given the next token",
    (r"x_1, \ldots, x_{T-1} \sim P(l|n) \text{ independently}",),
    ("the next token fixes the query",),
    "section 3",
)
ASSUMPTION_2 = _stated(
    "Assumption 2",
    "Classes overlap weakly, but every class overlaps some other",
    (
        r"F^\top F = I + E, \quad |\lambda_1(E)| < \frac{1}{K}, \quad |\lambda_i(E)| \ge \frac{6}{\sqrt{M}}, \quad M \gg K^2",
    ),
    ("a condition on the data, not a result",),
    "section 4",
    errata=(errata.ERRATUM_13,),
)

LEMMA_1 = _stated(
    "Lemma 1",
    "The gradient of decoder and attention, one sequence at a time",
    (
        r"\text{model: } \alpha = \mathrm{softmax}(Y^\top f), \quad f = \mathrm{LN}(X^\top b),"
        r" \quad b = \mathrm{softmax}(X Z^\top x_T)",
        r"\text{decoder: } \dot Y = \eta_Y f (x_{T+1} - \alpha)^\top",
        r"\text{attention of query } m \text{: } \dot z_m = \eta_Z f \circ (g - f f^\top g), \quad g = Y (x_{T+1} - \alpha)",
    ),
    ("one sequence a step",),
    "section 3, eq. 4",
)
LEMMA_2 = _stated(
    "Lemma 2",
    "In long contexts attention depends on the class alone",
    (r"X^\top b \to c_n", _ATTENTION),
    (_LONG, "independent context tokens"),
    "section 3",
)
LEMMA_3 = _stated(
    "Lemma 3",
    "In the coordinates of the features, classes are learnt independently",
    (
        r"W = F^\top Y, \quad \dot w_j = \eta_Y 1(j = n) (e_n - \alpha_n), \quad \alpha_j = \mathrm{softmax}(w_j)",
        r"\text{in } Y \text{: } \dot Y = \eta_Y (f_n - F E' e_n)(e_n - \alpha_n)^\top",
    ),
    ("features held fixed", "gradient taken in W, not in Y"),
    "section 4, eq. 26",
)
LEMMA_4 = _stated(
    "Lemma 4",
    "How attention logits move, given the decoder",
    (
        r"\dot z_m = \eta_Z \gamma \sum_{n: \psi(n) = m} \mathrm{diag}(f_n) \sum_{n' \ne n} \beta_{nn'} (f_n f_n^\top - I) f_{n'}",
    ),
    (_WEAK, "a decoder much faster than attention"),
    "section 5, eq. 10",
    errata=(errata.ERRATUM_6,),
)
LEMMA_5 = _stated(
    "Lemma 5",
    "The decoder after s draws of a class",
    (
        r"w_n(s) = (M - 1) h^*(s) \zeta_n, \quad \zeta_n = \frac{M}{M - 1} (e_n - \frac{1}{M} 1)",
        r"h^*(s) = h^*(s - 1) + \frac{\eta_Y}{M - 1 + e^{M h^*(s - 1)}}",
    ),
    ("modified gradient (eq. 26)", "Y(0) = 0"),
    "App. D",
)
LEMMA_6 = _stated(
    "Lemma 6",
    "The height of the decoder in continuous time",
    (r"e^{M h} + (M - 1) M h = M \eta_Y t + 1",),
    ("h(0) = 0",),
    "App. D",
)
LEMMA_7 = _stated(
    "Lemma 7",
    "Steps run ahead of the flow by at most 2 eta_Y/M",
    (r"0 \le h^*(s) - h(s) \le \frac{2 \eta_Y}{M}",),
    ("both heights start at 0",),
    "App. D, Fig. 8",
)
LEMMA_8 = _stated(
    "Lemma 8",
    "Where the linear term of the height outweighs the exponential",
    (
        r"e^{M h} \le (M - 1) M h \text{ on } M^{-(2 - \omega_0)} \le h \le (1 + \omega_1) \frac{\ln M}{M}",
        r"\omega_1 = \Theta(\frac{\ln \ln M}{\ln M}), \quad \omega_0 = O(\frac{1}{M^{0.99} \ln M})",
    ),
    ("M ≫ 100",),
    "App. D",
)
LEMMA_9 = _stated(
    "Lemma 9",
    "The speed of attention rises like t, then falls like ln(t)/t",
    (
        r"\gamma(t) = \frac{(M - 1)^2 h(t/K)}{M - 1 + e^{M h(t/K)}}",
        r"\text{early: } h \approx \frac{\eta_Y t}{M K}, \quad \gamma = O(\frac{\eta_Y t}{K})"
        r" \text{ up to } t_0' = \frac{K \ln M}{\eta_Y}",
        r"\text{late: } h \approx \frac{1}{M} \ln \frac{M \eta_Y t}{K}, \quad \gamma = O(\frac{K \ln(M \eta_Y t/K)}{\eta_Y t})"
        r" \text{ from } t_0 = \frac{2 (1 + \omega_1) K \ln M}{\eta_Y}",
    ),
    ("M ≫ 100", "classes equally likely"),
    "App. D, eqs. 57 and 85",
)
LEMMA_10 = _stated(
    "Lemma 10",
    "A class is drawn about N P(n) times in N steps",
    (r"|N_n - N P(n)| < \sqrt{N \ln(2/\delta)} \text{ with chance } 1 - \delta",),
    ("classes drawn independently",),
    "App. D",
)
LEMMA_11 = _stated(
    "Lemma 11",
    "The height of a class is close to that of the mean number of draws",
    (
        r"|h(N_n) - h(N/K)| \lesssim h(N/K) \frac{\Delta}{N/K}, \quad \Delta = \sqrt{N \ln(1/\delta)}",
    ),
    ("N ≫ K²", "classes equally likely"),
    "App. D",
)
LEMMA_12 = _stated(
    "Lemma 12",
    "The output error of a class is close to that of the mean number of draws",
    (
        r"\frac{1}{M - 1 + e^{M h(N_n)}} = \frac{1 + \sigma}{M - 1 + e^{M h(N/K)}}, \quad |\sigma| \le \frac{1}{3} \eta_Y \Delta",
    ),
    ("N ≫ K²", "classes equally likely"),
    "App. D",
)
LEMMAS_13_TO_17 = _stated(
    "Lemmas 13 to 17",
    "Bounds on the couplings E' for weak overlaps E",
    (
        r"E' = I - (I + E)^{-1}, \quad |E_{ij}| \le |\lambda_1|, \quad \lambda(E') = \frac{\lambda}{1 + \lambda}",
        r"|\lambda(E')| \le \frac{|\lambda_1|}{1 - |\lambda_1|}, \quad E'_{nn} < 0,"
        r" \quad |E'_{nn'} - E_{nn'}| \le \frac{\lambda_1^2}{1 - |\lambda_1|}",
        r"\sum_{k \ne n} E_{nk} E'_{nk} = -E'_{nn} = \sum_k \frac{\lambda_k^2 u_{nk}^2}{1 + \lambda_k}",
    ),
    ("|λ_1| < 1/K", "every class overlaps some other"),
    "App. D",
)
LEMMA_18 = _stated(
    "Lemma 18",
    "Attention at finite length needs only token counts, close to their mean",
    (
        r"X^\top \mathrm{diag}(b) X = \mathrm{diag}(X^\top b)",
        r"|q_l - P(l|n)| \le \sqrt{\frac{\ln(2/\delta)}{2 (T - 1)}} \text{ with chance } 1 - \delta",
    ),
    ("independent context tokens",),
    "appendix, proof of Lemma 2",
)

THEOREM_1 = _stated(
    "Theorem 1",
    "The backpropagated gradient lies in the span of the features",
    (
        r"g_n = Y (e_n - \alpha_n) = \gamma (\iota_n f_n - \sum_{n' \ne n} \beta_{nn'} f_{n'})",
        r"\iota_n \approx 1 - E'_{nn}, \quad \beta_{nn'} \approx E'_{nn'} \text{ to order } 1/M",
    ),
    (
        _WEAK,
        "modified gradient (eq. 26)",
        "Y(0) = 0",
        "M ≫ 100",
        "M^-0.99 ≪ η_Y < 1",
        "t ≫ K²",
        "classes equally likely",
    ),
    "section 4, App. D, eq. 88",
    errata=(
        errata.ERRATUM_2,
        errata.ERRATUM_8,
        errata.ERRATUM_9,
    ),
)
THEOREM_1A = _stated(
    "Theorem 1(a)",
    "The pull on distinct tokens is positive",
    (r"\xi_n = \gamma \sum_{n' \ne n} \beta_{nn'} f_n^\top f_{n'} \approx -\gamma E'_{nn} > 0",),
    THEOREM_1.hypotheses,
    "section 4, App. D",
)
THEOREM_1B = _stated(
    "Theorem 1(b)",
    "The speed of attention first grows, then decays",
    (
        r"\gamma(t) = O(\frac{\eta_Y t}{K}) \text{ for } t \ll t_0',"
        r" \quad \gamma(t) = O(\frac{K \ln(\eta_Y t/K)}{\eta_Y t}) \text{ for } t \gg t_0",
    ),
    THEOREM_1.hypotheses,
    "section 4",
    errata=(errata.ERRATUM_7,),
)
THEOREM_2A = _stated(
    "Theorem 2(a)",
    "Distinct tokens gain attention, frequent ones faster",
    (r"\dot z_{ml} = \eta_Z f_{nl}^2 \xi_n > 0",),
    (_WEAK, _MODIFIED, _LONG),
    "section 5, App. E, eq. 98",
)
THEOREM_2B = _stated(
    "Theorem 2(b)",
    "The only common token loses attention",
    (r"\dot z_{ml} = -\eta_Z \sum_{n: \psi(n) = m} (1 - f_{nl}^2) \xi_n < 0",),
    (_WEAK, _MODIFIED, _LONG, "one common token", "some class of the query has a distinct token"),
    "section 5, App. E, eq. 100",
)
THEOREM_3 = _stated(
    "Theorem 3",
    "The lead of a distinct token over another grows with its own logit alone",
    (
        r"r_{l/l'|n}(t) = \frac{f_{nl}^2}{f_{nl'}^2} - 1 = r_{l/l'|n}(0) \chi_l(t), \quad \chi_l = e^{2 (z_{ml}(t) - z_{ml}(0))}",
        r"\text{bounds: } e^{2 f_{nl}^2(0) B_n(t)} \le \chi_l(t) \le e^{2 B_n(t)}, \quad B_n(t) = \eta_Z \int_0^t \xi_n dt",
    ),
    (
        _WEAK,
        _MODIFIED,
        "both tokens are distinct, of one class",
        "for the bounds: l leads all other distinct tokens, common tokens fall",
    ),
    "section 5, App. E",
    errata=(errata.ERRATUM_1,),
)
THEOREM_4 = _stated(
    "Theorem 4",
    "Attention scans like ln t, then snaps to ln ln t",
    (
        r"B_n(t) = \frac{1}{4} \ln(C_0 + 4 \Gamma(t)), \quad C_0 = \frac{\rho_0^4}{K}",
        r"\Gamma(t) = \eta_Z \int_0^t \gamma dt = \frac{\eta_Z}{\eta_Y} \frac{K (M - 1)^2}{2} h^2(t/K)",
        r"\text{onset: } t_0 = \frac{2 (1 + \omega_1) K \ln M}{\eta_Y}",
    ),
    (_WEAK, _MODIFIED, _ZERO, _ONE_COMMON, "classes equally likely", "features of constant norm"),
    "section 6, eqs. 13 and 14, App. F",
    errata=(
        errata.ERRATUM_4,
        errata.ERRATUM_5,
        errata.ERRATUM_10,
    ),
)
THEOREM_5 = _stated(
    "Theorem 5",
    "The decoder after N random draws",
    (
        r"Y(N) = F (I - E') (I + \Theta) W_{N/K}, \quad |\theta_i| \lesssim \frac{K}{\sqrt{N}} \sqrt{\ln(K/\delta)}",
    ),
    ("modified gradient (eq. 26)", "N ≫ K²", "classes equally likely"),
    "App. D",
)
COROLLARY_1 = _stated(
    "Corollary 1",
    "The output error after N draws, and how many draws reach a given error",
    (
        r"e_n - \alpha_n = \frac{M - 1}{M - 1 + e^{M h(N/K)}} (1 + \sigma) \zeta_n",
        r"\text{draws to an error } \epsilon \text{: } N = O(\frac{K}{\epsilon \eta_Y} \ln \frac{M}{\epsilon})",
    ),
    ("modified gradient (eq. 26)", "N ≫ K²", "classes equally likely"),
    "App. D",
)
COROLLARY_2 = _stated(
    "Corollary 2",
    "Several common tokens all lose attention if the classes are alike",
    (r"\dot z_{ml} < 0 \text{ for every common token } l",),
    (
        _WEAK,
        _MODIFIED,
        "one query",
        "distinct tokens of any two classes equally frequent, one by one",
        "common tokens equally frequent in every class",
        "Z(0) = 0",
    ),
    "section 5, App. E",
)
REMARK_1 = _stated(
    "Remark 1",
    "Plain descent as the modified gradient at the rate (1 - rho) eta_Y",
    (r"w_n = (1 - \rho) (M - 1) h^* \zeta_n",),
    (_PLAIN, "equal overlaps ρ"),
    "App. D.2, eq. 43",
    errata=(errata.ERRATUM_3,),
)

FIG_3 = _shown(
    "Fig. 3",
    "The growth factor over time: steep at first, then nearly flat",
    (r"\chi_l(t) = e^{2 B_n(t)}",),
    ("K = 10, M = 1000, η_Z = 0.5",),
    "section 6",
)
FIG_4 = _shown(
    "Fig. 4",
    "Attention of two classes during SGD: sparse on frequent distinct tokens",
    (_ATTENTION,),
    ("Syn-Small, SGD with momentum 0.9",),
    "section 8",
    errata=(errata.ERRATUM_12,),
)
FIG_5 = _shown(
    "Fig. 5",
    "Under Adam the rate decides which distinct tokens win",
    (_ATTENTION,),
    ("Syn-Small, Adam",),
    "section 8",
)
FIG_6 = _shown(
    "Fig. 6",
    "Entropy of attention on distinct tokens against both learning rates",
    (_ENTROPY,),
    ("Syn-Medium, SGD with momentum 0.9, ten seeds",),
    "section 8",
    errata=(
        errata.ERRATUM_14,
        errata.ERRATUM_15,
    ),
)
FIG_7 = _shown(
    "Fig. 7",
    "Attention of the lowest layer becomes sparse on WikiText",
    (_ROW_ENTROPY,),
    ("WikiText2, SGD at rate 5, one and three layers",),
    "section 8",
)
FIG_9 = _shown(
    "Fig. 9",
    "The growth bound over time: its value at the onset depends on nu and M alone",
    (r"B_n(t) = \frac{1}{4} \ln(1 + 4 \Gamma(t))",),
    ("K = 1, C_0 = 1",),
    "App. F",
)
FIG_10 = _shown(
    "Fig. 10",
    "On WikiText attention is sparser at a higher learning rate",
    (_ROW_ENTROPY,),
    ("one layer, SGD, five seeds",),
    "appendix",
)
FIG_11 = _shown(
    "Fig. 11",
    "Recall of distinct tokens against the ratio of the rates",
    (_RECALL,),
    ("Syn-Medium, ten seeds",),
    "appendix",
)
FIG_12 = _shown(
    "Fig. 12",
    "Recall of distinct tokens against the attention rate",
    (_RECALL,),
    ("Syn-Medium, ten seeds",),
    "appendix",
)

PLAIN_COUPLING = _ours(
    "coupling of plain descent",
    "Plain descent couples classes far more weakly than Theorem 1 says",
    (errata.PLAIN_BETA, *errata.PLAIN_LOGITS),
    (_PLAIN, "equal overlaps ρ", "classes equally likely"),
    "replaces tian2023, Theorem 1",
)
PLAIN_ORDER = _ours(
    "order under plain descent",
    "Frequent distinct tokens gain more attention under plain descent too",
    (r"P(l|n) > P(l'|n) \Rightarrow z_{ml}(t) > z_{ml'}(t)",),
    (_PLAIN, "two distinct tokens of one class", "equal classes", _ZERO),
    "extends tian2023, Theorem 2(a)",
)
PLAIN_RELATIVE_GAIN = _ours(
    "relative gain under plain descent",
    "Under plain descent leads lag behind Theorem 3, less so for a faster decoder",
    (
        r"\frac{r_{l/l'|n}(t)}{r_{l/l'|n}(0) \chi_l(t)} \to 1 \text{ as } \frac{\eta_Y}{\eta_Z} \to \infty",
    ),
    (_PLAIN, "joint descent of decoder and attention"),
    "extends tian2023, Theorem 3",
)
PLAIN_SNAP = _ours(
    "snap under plain descent",
    "Plain descent scans more weakly, and its growth slows at another time",
    (),
    (_PLAIN, _ZERO, _ONE_COMMON),
    "extends tian2023, Theorem 4",
)
FINITE_LENGTH_FATES = _ours(
    "fates at finite length",
    "In short contexts the rarest distinct tokens lose attention",
    (),
    ("Syn-Small, contexts of T tokens", "one query"),
    "limits tian2023, Theorem 2(a)",
)
SELF_CONSISTENT_GROWTH = _ours(
    "self-consistent growth bound",
    "Theorem 4 with the common token falling through all K classes at once",
    (
        r"B_n(t) = \frac{1}{4 K} \ln(1 + \frac{4 K (K - 1) \Gamma(t)}{\rho_0^4}), \quad z_{ml} \approx -K B_n",
        r"\text{with the floor } 1/M \text{ of the coupling: } v - \ln(1 + v) = v_0 - \ln(1 + v_0) + \frac{2 \kappa (K - 1)"
        r" \Gamma(t)}{M^2},"
        r" \quad B_n = \frac{1}{2 \kappa} \ln \frac{v}{v_0}",
        r"v_0 = \frac{\rho_0^2}{M}, \quad \kappa = K + \sum_l f_{nl}^4,"
        r" \quad \text{per step of descent } \Gamma \to \frac{\Gamma}{K}",
    ),
    (_WEAK, _MODIFIED, _ZERO, _ONE_COMMON),
    "corrects tian2023, Theorem 4, by its Theorem 2(b)",
)
FROZEN_ENTROPY = _ours(
    "entropy when attention has frozen",
    "How sparse attention is when it has snapped",
    (_ENTROPY,),
    (_MODIFIED, _ZERO, _ONE_COMMON),
    "joins tian2023, Theorems 2 and 4",
)
SPEED_PEAK = _ours(
    "peak of the speed",
    "When attention moves fastest, and how fast, exactly",
    (
        r"\gamma_{\max} = \frac{M - 1}{M} (x - 1), \quad (x - 1) e^x = M - 1",
        r"t = \frac{K}{M \eta_Y} (e^x + (M - 1) x - 1) < t_0'",
    ),
    ("continuous time", "classes equally likely"),
    "sharpens tian2023, Lemma 9",
)
STEPS_TO_ERROR = _ours(
    "steps to an output error",
    "How many draws reach a given output error, exactly",
    (r"N \approx \frac{K}{\eta_Y} (\frac{1}{\epsilon} + \ln \frac{M}{\epsilon})",),
    ("modified gradient (eq. 26)", "N ≫ K²", "classes equally likely"),
    "sharpens tian2023, Corollary 1, by its Lemma 6",
)
FIRST_FORCE = _ours(
    "first force",
    "Where attention moves first follows from counts alone, in any text",
    (
        r"z_m(t) = \frac{t^2}{2} \eta_Y \eta_Z F_m + O(t^3), \quad F_m = \mathrm{E}[1(q = m) \, f \circ (g - f (f \cdot g))]",
        r"g = D e_n, \quad D = \mathrm{E}[f (e_n - \frac{1}{M})^\top], \quad f = \frac{N}{|N|_2} \text{ of each window}",
    ),
    (_ZERO, "gradient flow, or descent on all windows", "rates times time small"),
    "extends tian2023, Theorem 2, to finite and dependent contexts",
)
FIRST_FORCE_CLOCK = _ours(
    "clock of the first force",
    "How long the first force holds: until the decoder's logits have left zero",
    (
        r"z_m(t) = \eta_Y \eta_Z [\frac{t^2}{2} F_m + \frac{\eta_Y t^3}{3} F_m^{(2)}] + O(t^4),"
        r" \quad g^{(2)} = -\frac{1}{M} (\frac{1}{2} S D e_n + D D^\top f), \quad S = \mathrm{E}[f f^\top]",
        r"t_\delta = \frac{1}{\eta_Y \ell} \ln(1 + \frac{3}{2} \delta \ell \frac{|F|}{|F^{(2)}|}),"
        r" \quad \ell = \mathrm{E}[\max_j (D^\top f)_j]",
    ),
    (_ZERO, "gradient flow"),
    "next order of the first force",
)
FIRST_FORCE_CLASSES = _ours(
    "first force of classes",
    "For classes with infinite contexts the first force gives Theorems 2 and 3",
    (
        r"F_{ml} = \frac{1}{K^2 M} \sum_{n: \psi(n) = m} \sum_{n' \ne n} f_{nl} [(f_n \cdot f_{n'}) f_{nl} - f_{n'l}]",
        r"\text{distinct: } F_{ml} = \frac{f_{nl}^2}{K^2 M} \sum_{n' \ne n} f_n \cdot f_{n'} > 0,"
        r" \quad \text{one common token: } F_{ml} < 0",
    ),
    (_ZERO, _LONG, "classes equally likely"),
    "contains tian2023, Lemma 4 and Theorems 2, 3, without Assumption 2",
)
DECODER_FIRST = _ours(
    "decoder first",
    "Attention follows the force along the decoder's own path",
    (
        r"Y_{k+1} = Y_k + \eta_Y \mathrm{E}[f \epsilon^\top], \quad \epsilon = e_n - \mathrm{softmax}(Y_k^\top f)",
        r"z_{m,k+1} = z_{mk} + \eta_Z \mathrm{E}[1(q = m) \, f \circ (g - f (f \cdot g))], \quad g = Y_k \epsilon",
    ),
    (_ZERO, "attention too small to change f"),
    "extends the first force",
)
DECODER_FIRST_ERROR = _ours(
    "error of decoder first",
    "The error of decoder first can be predicted without a joint run",
    (r"\frac{|z'_k - z_k|}{|z'_k|}, \quad z' \text{ along } f_l \propto N_l e^{z_{ql}}",),
    (_ZERO,),
    "one step of Picard's iteration",
)

ADAM_LIMIT = _ours(
    "Adam's decoder, one number a row",
    "Under Adam rows start out equal, so flat attention is best; then rare ones lead",
    (
        r"Y_{lj} = \pm a_l \text{: } + \text{ where } j \text{ follows } l \text{, } - \text{ elsewhere}",
        r"\dot a_l \propto (1 - \alpha_n) f_l, \quad \dot z_l \propto (1 - \alpha_n) f_l (G_l - f_l f^\top G)"
        r" \text{, each in steps of Adam}",
        r"G_l = a_l \text{ for distinct tokens, } q a_l \text{ for common ones}",
        r"D = \sum_{\text{distinct}} f_l a_l, \quad C = \sum_{\text{common}} f_l a_l,"
        r" \quad q = (1 + \frac{K - 1}{M - K} e^{2 C})^{-1}",
    ),
    (
        "Adam at one rate for decoder and attention",
        _ZERO,
        _LONG,
        "equal classes, each with its own query",
    ),
    "after tian2023, Fig. 5",
)
ADAM_FIRST_MOVE = _ours(
    "first move under Adam",
    "Below a critical rate a frequent distinct token first loses attention",
    (
        r"\dot z_l > 0 \text{ if } f_l < f^* = \frac{1}{D + q C}, \quad D = \sum_{\text{distinct}} f_l, \quad"
        r" C = \sum_{\text{common}} f_l",
        r"\eta^*_l = \frac{1}{2 C} \ln[\frac{M - K}{K - 1} (\frac{C}{1/f_l - D} - 1)]",
    ),
    ADAM_LIMIT.hypotheses,
    "after tian2023, Fig. 5",
)
MOMENTUM_CLOCK = _ours(
    "momentum as a clock",
    "At small rates momentum speeds training up, with a larger error",
    (
        r"t = \frac{\eta}{1 - \mu} (s - \mu \frac{1 - \mu^s}{1 - \mu})",
        r"\frac{\text{error with momentum}}{\text{error of descent at } \eta/(1 - \mu)} \to \frac{1 + \mu}{1 - \mu}",
    ),
    ("no noise", "gradients hardly change within 1/(1 - μ) steps"),
    "after tian2023, section 8",
)

_PRIOR = "a positional prior that stays"
POSITIONAL_LEMMA_4 = _ours(
    "positional prior in Lemma 4",
    "A positional prior acts through one weight per token and class",
    (
        r"f_n \propto \tilde P(l|n) e^{z_l}, \quad \tilde P(l|n) = \sum_d P(l, d|n) e^{b_d}",
        r"\dot z_m = \eta_Z \gamma \sum_{n: \psi(n) = m} \mathrm{diag}(f_n) \sum_{n' \ne n} \beta_{nn'} (f_n f_n^\top - I) f_{n'}",
        r"\text{a bias that learns: } \dot b_d = \eta_b \sum_{n, l} P(n) \frac{P(l, d|n) e^{b_d}}{\tilde P(l|n)} \dot z_{l|n}",
    ),
    (_LONG, "scores are a token term plus a position term"),
    "extends tian2023, Lemma 4 and section 7",
)
POSITIONAL_FATES = _ours(
    "fates with a positional prior",
    "Distinct tokens first gain with any prior; common ones only with some",
    (
        r"\dot z_l > 0 \text{ for a common token of two classes if } \frac{f_{2l}}{f_{1l}} < \frac{1 - \sqrt{1 - \rho^2}}{\rho}",
        r"\rho = f_1^\top f_2 \text{ with the prior in } f",
    ),
    (_LONG, _PRIOR, "two classes of one query, equally likely", "the start of training, from zero"),
    "extends tian2023, Theorem 2",
)
POSITIONAL_ORDER = _ours(
    "order with a positional prior",
    "Distinct tokens gain in the order of frequency × prior",
    (
        r"\tilde P(l|n) > \tilde P(l'|n) \Rightarrow z_l(t) > z_{l'}(t)",
        r"\text{prior } -s d \text{: the nearer gains more if } s > \frac{1}{d' - d} \ln \frac{P(l'|n)}{P(l|n)}",
    ),
    (
        _LONG,
        _PRIOR,
        _ZERO,
        "two distinct tokens of one class",
        "equal classes, or the theory's flow",
    ),
    "extends tian2023, Theorem 3",
)
POSITIONAL_CLOCK = _ours(
    "clock with a positional prior",
    "A prior changes the timing of attention only through the overlaps of classes",
    (
        r"\text{the theory's flow: } t = \frac{K}{M \eta_Y} (e^x + (M - 1) x - 1), \quad (x - 1) e^x = M - 1, \text{ any } b_d",
        rf"\text{{plain descent: the peak of }} {errata.PLAIN_BETA} \text{{ at the overlap that }} b_d \text{{ leaves}}",
    ),
    (_LONG, _PRIOR, _ZERO, "attention much slower than the decoder", "two classes, equally likely"),
    "extends tian2023, Lemma 9 and Theorem 4",
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
