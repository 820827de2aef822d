r"""Where Scan and Snap [tian2023] is wrong in print: each form that fails, and the one that holds.

"By implication" marks what the paper does not print but uses. Numbers are those of `docs/errata.md`, which is made from the claims.
"""

from ..statement import Correction
from .statements import ASSUMPTION_2, FIG_4, FIG_6, LEMMA_4, PLAIN_COUPLING, REMARK_1, THEOREM_1, THEOREM_1B, THEOREM_3, THEOREM_4

_SUM = r"\sum_{n: \psi(n) = m} \mathrm{diag}(f_n) \sum_{n' \ne n} \beta_{nn'} (f_n f_n^\top - I) f_{n'}"
_EQ_88 = r"\beta_{nn'} = (1 + \sigma_n) [q_1 (1 + \theta_n) E'_{nn'} + q_0 (S_{nn'}"
_PLAIN_LOGITS = PLAIN_COUPLING.formula[1:]

_CORRECTIONS = (
    Correction(
        "0.1",
        THEOREM_3,
        (r"f_{nl} < f_{nl'} \Rightarrow \dot z_{ml} > \dot z_{ml'} \text{ in a widespread summary, not in the paper}",),
        (r"f_{nl} < f_{nl'} \Rightarrow \dot z_{ml} < \dot z_{ml'} \text{ as in eq. 98}",),
    ),
    Correction(
        "0.2",
        THEOREM_1,
        (r"\beta_{nn'} \approx E'_{nn'} \text{, true of the modified gradient (eq. 26) only}",),
        (rf"{PLAIN_COUPLING.formula[0]} \text{{ for plain descent (eq. 7), equal overlaps}}", *_PLAIN_LOGITS),
    ),
    Correction(
        "0.3",
        REMARK_1,
        (r"w_n = (1 - \rho) (M - 1) h^* \zeta_n, \quad h^* \text{ at the rate } \eta_Y",),
        (
            r"w_n = (M - 1) h^* \zeta_n, \quad h^* \text{ at the rate } (1 - \rho) \eta_Y \text{ if } K = M",
            r"w_n[n] = a - \rho (K - 1) b \text{ if } K < M \text{, where no such rate exists}",
            *_PLAIN_LOGITS,
        ),
    ),
    Correction(
        "0.4",
        THEOREM_4,
        (r"B_n(t) = \frac{1}{4} \ln(C_0 + 4 \Gamma(t))",),
        (r"B_n(t) = \frac{1}{4} \ln(1 + \frac{4 \Gamma(t)}{C_0}) \text{, zero at the start}",),
    ),
    Correction(
        "0.5",
        THEOREM_4,
        (r"\dot z_{ml} = -\eta_Z \xi_n, \quad z_{ml} = -B_n \text{: the common token } l \text{ feels one class}",),
        (
            r"\dot z_{ml} = -\eta_Z \sum_n (1 - f_{nl}^2) \xi_n \approx -K \eta_Z \xi_n,"
            r" \quad z_{ml} \approx -K B_n \text{: it feels all } K",
            r"B_n(t) = \frac{1}{4 K} \ln(1 + \frac{4 K (K - 1) \Gamma(t)}{\rho_0^4}) \text{, factor } K",
            r"v - \ln(1 + v) = v_0 - \ln(1 + v_0) + \frac{2 \kappa (K - 1) \Gamma(t)}{M^2},"
            r" \quad B_n = \frac{1}{2 \kappa} \ln \frac{v}{v_0}",
            r"v_0 = \frac{\rho_0^2}{M}, \quad \kappa = K + \sum_l f_{nl}^4"
            r" \text{: also the weight of distinct tokens } l \text{, and the floor } 1/M \text{ of the coupling}",
            r"\text{per step of descent, in each form: } \Gamma \to \frac{\Gamma}{K}",
        ),
    ),
    Correction(
        "0.6",
        LEMMA_4,
        (rf"\dot z_m = \eta_Z \gamma {_SUM}",),
        (rf"\dot z_m = \frac{{\eta_Z}}{{K}} \gamma {_SUM} \text{{, per step of descent, with }} P(n) = 1/K",),
    ),
    Correction(
        "0.7",
        THEOREM_1B,
        (r"\gamma(t) = O(\frac{K \ln(\eta_Y t/K)}{\eta_Y t})",),
        (r"\gamma(t) = O(\frac{K \ln(M \eta_Y t/K)}{\eta_Y t}) \text{, as in Lemma 9}",),
    ),
    Correction(
        "0.8",
        THEOREM_1,
        (rf"{_EQ_88} + (1 + \theta_{{n'}}))]",),
        (
            rf"{_EQ_88} - (1 + \theta_{{n'}}))]",
            r"S_{nn'} = \sum_{k \ne n} (1 + \theta_k) E'_{kn'}, \quad q_1 = 1 + \frac{1}{M - 1}, \quad q_0 = -\frac{M}{(M - 1)^2}",
        ),
    ),
    Correction(
        "0.9",
        THEOREM_1,
        (r"E' = (I + E)^{-1} - I \text{ in the list of notation, App. D.1}",),
        (r"E' = I - (I + E)^{-1} \text{, as in Lemma 14}",),
    ),
    Correction(
        "0.10",
        THEOREM_4,
        (r"t \gg \frac{1}{M \eta_Y} \exp \frac{1}{\sqrt{2 \nu}}, \quad \nu = \frac{\eta_Y}{\eta_Z}, \quad C_0 = K = 1",),
        (r"t \gg \frac{K}{M \eta_Y} \exp \sqrt{\frac{C_0 \nu}{2 K}}",),
    ),
    Correction(
        "0.12",
        FIG_4,
        (r"L(0) = \ln M, \quad M = 30 \text{: tokens of contexts}",),
        (r"L(0) = \ln M, \quad M = 34 \text{: queries and next tokens too}",),
    ),
    Correction(
        "0.13",
        ASSUMPTION_2,
        (r"\text{the published tasks meet it, by implication}",),
        (r"\text{none of the published tasks meets it}",),
    ),
    Correction(
        "0.14",
        FIG_6,
        (r"\theta_{s+1} = \theta_s - 10 \eta g_s \text{, by implication: momentum 0.9 as ten times the rate}",),
        (r"v_{s+1} = 0.9 v_s + g_s, \quad \theta_{s+1} = \theta_s - \eta v_{s+1}",),
    ),
    Correction(
        "0.15",
        FIG_6,
        (r"Y(0) = 0, \quad Z(0) = 0 \text{, by implication}",),
        (r"Y_{ij}(0), Z_{ij}(0) \sim \text{uniform on } [-M^{-1/2}, M^{-1/2}]",),
    ),
)

ERRATA = {each.number: each for each in _CORRECTIONS}
