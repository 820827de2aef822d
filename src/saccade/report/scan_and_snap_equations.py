"""The equations of Scan and Snap [tian2023], as claims are about them: letters as in the paper, as NOTATION.md lists them.

Where a printed form is known to be wrong both forms stand, each under its name (`scan_and_snap_errata.py`).
Not here: what is computed from them (theory/).
"""

from __future__ import annotations

from saccade.report.mathml import both, equation, frac, rate, root, row, sub, sup, total
from saccade.report.scan_and_snap_errata import ERRATA

Lines = list[tuple[str, str]]  # (what it is, MathML)

_H = "h(t/K)"
_XI = row("ξ_n = γ", total("n'≠n"), "β_{nn'} f_n^⊤ f_{n'}")
_ENTROPY = equation("H =", "−", total("l"), "a_l ln a_l, a_l =", frac("c_{l|n}", row(total("l'"), "c_{l'|n}")))
_ATTENTION = equation("c_{l|n} =", frac("P(l|n) e^{z_{ml}}", row(total("l'"), "P(l'|n) e^{z_{ml'}}")))
_RECALL = equation("R(θ) =", frac("'distinct tokens with' a_l > θ", "'distinct tokens'"), ", a = softmax(z_m)")
_GROWTH = frac("1", "4")

EQUATIONS: dict[str, Lines] = {
    "tian2023": [("the model", equation("α = softmax(Y^⊤ f), f = LN(X^⊤ b), b = softmax(X Z^⊤ x_T)"))],
    "tian2023, Lemma 1": [
        ("decoder", equation(rate("Y"), "= η_Y f (x_{T+1} − α)^⊤")),
        ("attention of query m", equation(rate("z", "m"), "= η_Z f∘(g − f f^⊤ g), g = Y (x_{T+1} − α)")),
    ],
    "tian2023, Lemma 2": [
        ("long contexts", equation("X^⊤ b → c_n")),
        ("attention of a class", _ATTENTION),
    ],
    "tian2023, Lemma 3": [
        ("in the coordinates W", equation(rate("w", "j"), "= η_Y 'if' (j = n) (e_n − α_n), α_j = softmax(w_j)")),
        ("eq. 26", equation(rate("Y"), "= η_Y (f_n − F E' e_n)(e_n − α_n)^⊤")),
    ],
    "tian2023, Lemma 4": ERRATA["0.6"],
    "tian2023, Lemma 5": [
        (
            "decoder after s draws",
            equation("w_n(s) = (M − 1) h^*(s) ζ_n,", "ζ_n =", frac("M", "M − 1"), "(e_n −", frac("1", "M"), "1)"),
        ),
        ("its height", equation("h^*(s) = h^*(s−1) +", frac("η_Y", "M − 1 + e^{M h^*(s−1)}"))),
    ],
    "tian2023, Lemma 6": [("implicit height", equation("e^{M h} + (M − 1) M h = M η_Y t + 1"))],
    "tian2023, Lemma 7": [("steps against the flow", equation("0 ≤ h^*(s) − h(s) ≤", frac("2 η_Y", "M")))],
    "tian2023, Lemma 8": [
        (
            "where decoding is linear",
            equation("e^{M h} ≤ (M − 1) M h 'on' [", sup("M", "−(2−ω_0)"), ", (1 + ω_1)", frac("ln M", "M"), "]"),
        )
    ],
    "tian2023, Lemma 9": [
        ("speed control", equation("γ(t) =", frac(row("(M − 1)^2", _H), row("M − 1 +", sup("e", row("M", _H)))))),
        ("early", equation("h ≈", frac("η_Y t", "M K"), "'up to' t_0' =", frac("K ln M", "η_Y"))),
        ("late", equation("h ≈", frac("1", "M"), "ln", frac("M η_Y t", "K"), "'from' t_0 =", frac("2(1 + ω_1) K ln M", "η_Y"))),
    ],
    "tian2023, Lemma 10": [("draws of a class", equation("|N_n − N P(n)| <", root("N ln(2/δ)"), "'with chance' 1 − δ"))],
    "tian2023, Lemma 11": [("its height", equation("|h(N_n) − h(N/K)| ≲ h(N/K)", frac("Δ", "N/K"), ", Δ =", root("N ln(1/δ)")))],
    "tian2023, Lemma 12": [
        (
            "its error",
            equation(
                frac("1", "M − 1 + e^{M h(N_n)}"), "=", frac("1 + σ", "M − 1 + e^{M h(N/K)}"), ", σ ≤", frac("1", "3"), "η_Y Δ"
            ),
        )
    ],
    "tian2023, Lemma 18": [("token counts", equation("|q_l − P(l|m, n)| ≤", root("ln(2/δ) / (2(T − 1))"), "'with chance' 1 − δ"))],
    "tian2023, Assumption 2": [
        (
            "weak correlations",
            equation("F^⊤ F = I + E, |λ_1(E)| <", frac("1", "K"), ", |λ_i(E)| ≥", frac("6", root("M")), ", M ≫ K^2"),
        ),
        *ERRATA["0.13"],
    ],
    "tian2023, Remark 1": ERRATA["0.3"],
    "tian2023, Theorem 1": [
        ("what is sent back", equation("g_n = Y (e_n − α_n) = γ (ι_n f_n −", total("n'≠n"), "β_{nn'} f_{n'})")),
        ("pull on distinct tokens", equation(_XI, "≈ −γ E'_{nn} > 0")),
        *ERRATA["0.9"],
        *ERRATA["0.8"],
        *ERRATA["0.2"],
    ],
    "tian2023, Theorem 1(b)": ERRATA["0.7"],
    "tian2023, Theorem 2": [
        ("(a) a distinct token gains", equation(rate("z", "ml"), "= η_Z", both("f", "nl", "2"), "ξ_n > 0")),
        (
            "(b) the one common token loses",
            equation(rate("z", "ml"), "= −η_Z", total("n: ψ(n)=m"), "(1 −", both("f", "nl", "2"), ") ξ_n < 0"),
        ),
    ],
    "tian2023, Theorem 3": [
        ("relative gain", equation("r_{l/l'|n}(t) = r_{l/l'|n}(0) χ_l(t), χ_l = e^{2(z_{ml}(t) − z_{ml}(0))}")),
        (
            "bounds",
            equation(sup("e", row("2", both("f", "nl", "2"), "(0) B_n(t)")), "≤ χ_l(t) ≤ e^{2 B_n(t)}, B_n(t) = η_Z ∫ ξ_n dt"),
        ),
        *ERRATA["0.1"],
    ],
    "tian2023, Theorem 4": [
        *ERRATA["0.4"],
        (
            "with",
            equation(
                "Γ(t) =",
                frac("η_Z", "η_Y"),
                frac("K (M − 1)^2", "2"),
                sup("h", "2"),
                "(t/K), C_0 =",
                frac(sup(sub("ρ", "0"), "4"), "K"),
            ),
        ),
        ("onset of snapping", equation("t_0 =", frac("2(1 + ω_1) K ln M", "η_Y"))),
        *ERRATA["0.5"],
        *ERRATA["0.10"],
    ],
    "tian2023, Theorem 5": [
        (
            "decoder after N draws",
            equation("Y(N) = F (I − E')(I + Θ)", sub("W", "N/K"), ", |θ_i| ≲", frac("K", root("N")), root("ln(K/δ)")),
        )
    ],
    "tian2023, Corollary 1": [
        ("error of a class", equation("e_n − α_n =", frac("M − 1", "M − 1 + e^{M h(N/K)}"), "(1 + σ) ζ_n")),
        ("draws to an error ε", equation("N = O(", frac("K", "ε η_Y"), "ln", frac("M", "ε"), ")")),
    ],
    "tian2023, Corollary 2": [
        ("several common tokens, symmetric classes", equation(rate("z", "ml"), "< 0 'for every common token' l"))
    ],
    "tian2023, eq. 14": ERRATA["0.4"],
    "tian2023, section 3": [("context", equation("x_1, …, x_{T−1} ∼ P(l|n) 'independently'"))],
    "tian2023, Theorems 2 and 3": [
        ("gain of a distinct token", equation(rate("z", "ml"), "= η_Z", both("f", "nl", "2"), "ξ_n")),
        ("relative gain", equation("r_{l/l'|n}(t) = r_{l/l'|n}(0) e^{2(z_{ml}(t) − z_{ml}(0))}")),
    ],
    "tian2023, Fig. 3": [("growth factor", equation("χ_l(t) = e^{2 B_n(t)}"))],
    "tian2023, Fig. 4": [("attention shown", _ATTENTION), *ERRATA["0.12"]],
    "tian2023, Fig. 5": [("attention shown, under Adam", _ATTENTION)],
    "tian2023, Fig. 6": [("entropy over distinct tokens of a class", _ENTROPY), *ERRATA["0.14"], *ERRATA["0.15"]],
    "tian2023, Fig. 7": [("entropy of a query's attention over keys", equation("H =", "−", total("j"), "b_j ln b_j"))],
    "tian2023, Fig. 10": [("entropy of a query's attention over keys", equation("H =", "−", total("j"), "b_j ln b_j"))],
    "tian2023, Fig. 11": [("recall at a threshold θ", _RECALL)],
    "tian2023, Fig. 12": [("recall at a threshold θ", _RECALL)],
    "tian2023, Fig. 9": [("growth bound, K = 1, C_0 = 1", equation("B_n(t) =", _GROWTH, "ln(1 + 4Γ(t))"))],
}
