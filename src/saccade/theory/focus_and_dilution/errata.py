r"""Where Focus and Dilution [chen2026] is wrong in print: each form that fails and the one that holds, then plain misprints.

Numbers are those of `docs/errata.md`, which is made from the claims: 1.n for sections 1 to 3.3 with Appendices B and C, 2.n for
sections 3.4 and 4 with Appendices D and E.
"""

from ..statement import Correction, Misprint

ERRATUM_1_1 = Correction(
    "1.1",
    (r"J_{att} \text{ positive semi-definite}",),
    (r"\sigma(J_{att}) = \{c, -c, 0\}, \quad c \text{ and } -c \text{ each } m \text{-fold}",),
    "The block swaps queries and keys, so each growing mode W_Q = W_K has a decaying twin W_Q = -W_K.",
)

ERRATUM_2_1 = Correction(
    "2.1",
    (r"\text{such a point for every } \lambda \in (0, 1)",),
    (r"\text{only if } (1 - \lambda) \pi_1 < \frac{1}{d}",),
    "A negative multiple of the logits that favour token 1 gives it less than 1/d, so P must do so too after a low token.",
)
ERRATUM_2_2 = Correction(
    "2.2",
    (r"\text{neutrally stable on the rank-one manifold}",),
    (
        r"\text{only for } \kappa \to \infty \text{; at finite } \kappa \text{ a rate } > 0 \text{ if and only if }"
        r" \lambda^2 \pi_l > [\pi_1 x_1^2 P_{1l} + (1 - \pi_1) x_l^2 P_{ll}] p (1 - p)",
    ),
    "Low tokens that part in γ change what they attend to, by κ Var(γ), which vanishes only in the limit.",
)
ERRATUM_2_3 = Correction(
    "2.3",
    (r"Q_K^\top J Q_K = -\delta^2 E (Q_R^\top J_0 Q_R)^{-1} E^\top + O(\delta^3) \text{, eq. 173}",),
    (r"Q_K^\top J Q_K = \delta^2 Q_K^\top H_2 Q_K - \delta^2 E (Q_R^\top J_0 Q_R)^{-1} E^\top = 0",),
    "The second-order change of the Jacobian is of the same size as the printed term and cancels it.",
)
ERRATUM_2_4 = Correction(
    "2.4",
    (r"\text{degenerate local minimum on the rank-one manifold}",),
    (
        r"\min_\beta L(\gamma_l + x) - L = \frac{\kappa^2 |x|^6}{2 (d - 1)^2}"
        r" [\pi_l p (1 - p) (\beta_1 - \beta_l)^2 - \frac{\lambda^2 \pi_l^2}{S}] < 0 \text{ above the critical } \lambda",
    ),
    "The flat directions of the Jacobian are not flat at sixth order.",
)
ERRATUM_2_5 = Correction(
    "2.5",
    (r"|\gamma| = |\beta|",),
    (
        r"|\gamma|^2 - |\beta|^2 = \lambda_Q^2 + \lambda_K^2 = 2 \kappa > 0",
        r"q_3 \propto (\frac{\gamma}{|\gamma|^2}; \frac{\beta}{|\beta|^2}) \text{, and the rest holds}",
    ),
    "The flow from a small start conserves this difference, so the printed balance holds only without attention.",
)
ERRATUM_2_6 = Correction(
    "2.6",
    (r"\pi \propto (2^{-1}, 2^{-2}, \ldots, 2^{-d}) \text{, App. E.1}",),
    (r"\pi = (0.75, 0.19, 0.05, 0.01) \approx (4^{-1}, 4^{-2}, \ldots, 4^{-d}) / \text{sum, section 4.1}",),
    "Section 4.1 and Appendix E.1 describe one experiment; powers of 2 give token 1 only 0.533.",
)

MISPRINTS: tuple[Misprint, ...] = (
    Misprint("App. D, eq. 175, last two lines", "right side without a factor on the left", "α_⊥ᵀ times it, as on the left side"),
    Misprint("App. D, display before eq. 228", "Hess L = J₀ + δH₁", "-Hess L = J₀ + δH₁"),
    Misprint("App. D, eq. 206, lower right block", "(1 - π₁)γ_l Var(p_l), after a factor 1 - π₁", "γ_l Var(p_l)"),
    Misprint("App. D, eq. 211", "diag(Var(p₁))", "diag(βᵀ Var(p₁))"),
    Misprint("App. D, eqs. 213 and 214", "c₆ without γ_l² and with Var(P₁)", "c₆ = γ_l² times the third cumulant of p_l along β"),
)
