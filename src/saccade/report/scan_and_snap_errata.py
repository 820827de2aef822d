"""Errata of Scan and Snap [tian2023] as equations: by its number, the form as printed and the corrected one, as claims hold both.

Numbers are those of `docs/errata.md`. Not here: how far apart the two are (the claims), and how they are computed (theory/).
"""

from __future__ import annotations

from saccade.report.mathml import both, equation, frac, rate, root, row, sub, sup, total

Lines = list[tuple[str, str]]  # (what it is, MathML)

_QUARTER = frac("1", "4")
_RHO_4 = sup(sub("ρ", "0"), "4")
_EQ_10 = row(total("n: ψ(n)=m"), "diag(f_n)", total("n'≠n"), "β_{nn'} (f_n f_n^⊤ − I) f_{n'}")
_EQ_88 = "β_{nn'} = (1 + σ_n)[q_1 (1 + θ_n) E'_{nn'} + q_0 (S_{nn'}"


def _step(letter: str, error: str) -> tuple[str, ...]:
    return rate(letter), "=", frac("η_Y", "K"), error


# Plain descent (eq. 7) with equal overlaps ρ: Y = sum of f_n a_n^T, a_n with entries a, −b for other classes, −c for other tokens.
PLAIN_DESCENT: Lines = [
    (
        "logits under plain descent, equal overlaps ρ",
        equation("w_n[n] = a − ρ(K − 1)b, w_n[n'] = −b + ρ(a − (K − 2)b)"),
    ),
    (
        "of all other tokens o",
        equation("w_n[o] = −c(1 + ρ(K − 1)), p = softmax(w_n)"),
    ),
    (
        "with",
        equation(*_step("a", "(1 − p_n),"), *_step("b", "p_{n'},"), *_step("c", "p_o")),
    ),
]


def _printed(number: str, markup: str, said: str = "") -> tuple[str, str]:
    return f"erratum {number}, as printed{said}", markup


def _corrected(number: str, markup: str, said: str = "") -> tuple[str, str]:
    return f"erratum {number}, corrected{said}", markup


ERRATA: dict[str, Lines] = {
    "0.1": [
        _printed(
            "0.1",
            equation("f_{nl} < f_{nl'} ⇒", rate("z", "ml"), ">", rate("z", "ml'")),
            " in a widespread summary, not in the paper",
        ),
        _corrected("0.1", equation("f_{nl} < f_{nl'} ⇒", rate("z", "ml"), "<", rate("z", "ml'")), ", as in eq. 98"),
    ],
    "0.2": [
        _printed("0.2", equation("β_{nn'} ≈ E'_{nn'}"), ": true of the modified gradient (eq. 26) only"),
        _corrected(
            "0.2",
            equation("γ β = b(1 − p_n) + a p_{n'} − (K − 2) b p_{n'} − (M − K) c p_o"),
            " for plain descent (eq. 7), equal overlaps",
        ),
        *PLAIN_DESCENT,
    ],
    "0.3": [
        _printed("0.3", equation("w_n = (1 − ρ)(M − 1) h^* ζ_n, h^* 'at the rate' η_Y"), ", eq. 43, equal overlaps ρ"),
        _corrected("0.3", equation("w_n = (M − 1) h^* ζ_n, h^* 'at the rate' (1 − ρ) η_Y"), ", K = M"),
        _corrected("0.3", equation("w_n[n] = a − ρ(K − 1)b"), ", K < M: no such rate, but"),
        *PLAIN_DESCENT,
    ],
    "0.4": [
        _printed("0.4", equation("B_n(t) =", _QUARTER, "ln(C_0 + 4Γ(t))")),
        _corrected("0.4", equation("B_n(t) =", _QUARTER, "ln(1 +", frac("4Γ(t)", "C_0"), ")"), ": zero at the start"),
    ],
    "0.5": [
        _printed("0.5", equation(rate("z", "ml"), "= −η_Z ξ_n, z_{ml} = −B_n"), ": the common token l feels one class"),
        _corrected(
            "0.5",
            equation(rate("z", "ml"), "= −η_Z", total("n"), "(1 −", both("f", "nl", "2"), ") ξ_n ≈ −K η_Z ξ_n, z_{ml} ≈ −K B_n"),
            ": it feels all K",
        ),
        _corrected(
            "0.5",
            equation("B_n(t) =", frac("1", "4K"), "ln(1 +", frac("4K(K − 1) Γ(t)", _RHO_4), ")"),
            ", factor K",
        ),
        _corrected(
            "0.5",
            equation(
                "v − ln(1 + v) = v_0 − ln(1 + v_0) +",
                frac("2κ(K − 1) Γ(t)", "M^2"),
                ", B_n =",
                frac("1", "2κ"),
                "ln",
                frac("v", "v_0"),
            ),
            ", factor K, weight of distinct tokens l and floor 1/M of the coupling",
        ),
        ("with", equation("v_0 =", frac(both("ρ", "0", "2"), "M"), ", κ = K +", total("l"), both("f", "nl", "4"))),
        ("per step of descent, in each form", equation("Γ →", frac("Γ", "K"))),
    ],
    "0.6": [
        _printed("0.6", equation(rate("z", "m"), "= η_Z γ", _EQ_10), ", eq. 10"),
        _corrected(
            "0.6",
            equation(rate("z", "m"), "=", frac("η_Z", "K"), "γ", _EQ_10),
            ": per step of descent, with P(n) = 1/K",
        ),
    ],
    "0.7": [
        _printed("0.7", equation("γ(t) = O(", frac("K ln(η_Y t/K)", "η_Y t"), ")")),
        _corrected("0.7", equation("γ(t) = O(", frac("K ln(M η_Y t/K)", "η_Y t"), ")"), ", as in Lemma 9"),
    ],
    "0.8": [
        _printed("0.8", equation(_EQ_88, "+ (1 + θ_{n'}))]"), ", eq. 88"),
        _corrected("0.8", equation(_EQ_88, "− (1 + θ_{n'}))]")),
        ("with", equation("S_{nn'} =", total("k≠n"), "(1 + θ_k) E'_{kn'}")),
        ("and", equation("q_1 = 1 +", frac("1", "M − 1"), ", q_0 = −", frac("M", "(M − 1)^2"))),
    ],
    "0.9": [
        _printed("0.9", equation("E' = (I + E)^{−1} − I"), " in the list of notation, App. D.1"),
        _corrected("0.9", equation("E' = I − (I + E)^{−1}"), ", as in Lemma 14"),
    ],
    "0.10": [
        _printed(
            "0.10", equation("t ≫", frac("1", "M η_Y"), "exp", frac("1", root("2ν")), ", ν =", frac("η_Y", "η_Z")), ", C_0 = K = 1"
        ),
        _corrected("0.10", equation("t ≫", frac("K", "M η_Y"), "exp", root("C_0 ν / (2K)"))),
    ],
    "0.12": [
        _printed("0.12", equation("L(0) = ln M, M = 30"), ": tokens of contexts"),
        _corrected("0.12", equation("L(0) = ln M, M = 34"), ": queries and next tokens too"),
    ],
    "0.13": [
        _printed("0.13", equation("'the published tasks meet it'"), ", by implication"),
        _corrected("0.13", equation("'none of the published tasks meets it'")),
    ],
    "0.14": [
        _printed("0.14", equation("θ_{s+1} = θ_s − 10 η g_s"), ", by implication: momentum .9 as ten times the rate"),
        _corrected("0.14", equation("v_{s+1} = 0.9 v_s + g_s, θ_{s+1} = θ_s − η v_{s+1}")),
    ],
    "0.15": [
        _printed("0.15", equation("Y(0) = 0, Z(0) = 0"), ", by implication"),
        _corrected("0.15", equation("Y_{ij}(0), Z_{ij}(0) ∼ 'uniform on' [−", sup("M", "−1/2"), ",", sup("M", "−1/2"), "]")),
    ],
}
