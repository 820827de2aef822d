"""The equations of Focus and Dilution [chen2026] and those derived here beside it: letters as NOTATION.md lists them.

Angle brackets are the average over π; the mean in ζ is a plain one and is written out.
Not here: what is computed from them (theory/).
"""

from __future__ import annotations

from saccade.report.mathml import equation, frac, rate, root, row, sub, sup, total

Lines = list[tuple[str, str]]  # (what it is, MathML)


_FOCUS_RATE = equation(
    "c =",
    frac("|ζ|", "|π|^5"),
    "(",
    total("i"),
    sup(sub("π", "i"), "2"),
    "ζ·(P_i − π)) (",
    total("j"),
    sup(sub("π", "j"), "3"),
    "− |π|^4)",
)
_DRIFT = equation("F_j = 2 κ_1 π_j (γ_j − ⟨γ⟩) + π_j (P_j − π)·β", sub("Var", "π"), "(γ),", total("j"), "F_j = 0")
_NEXT = equation("B = [", frac("∂L", "∂M"), "|", frac("∂L", "∂Φ"), "W_0 W_K |", frac("∂L", "∂Φ^⊤"), "W_0 W_Q ], 'rate' = s_1(B)")
_MODEL: Lines = [
    ("attention", equation("A_{ij} =", frac("π_j e^{Φ_{ij}}", row(total("k"), "π_k e^{Φ_{ik}}")), ", Φ = W_0 W_Q W_K^⊤ W_0^⊤")),
    ("loss", equation("L = −", total("i"), "π_i", total("j"), "P_{ij} ln softmax(A_i W_0 W_1)_j")),
]
_ADAM: Lines = [("Adam's step has the size of a sign", equation("Δθ ≈ −η", frac("m", root("v")), ", |Δθ| ≈ η"))]
_PLATEAU: Lines = [
    (
        "unigram plateau",
        equation("W_0 = γ α^⊤, γ = g", frac("π", "|π|"), ", W_1 = α β^⊤, β =", frac("ζ", "g |π|"), ", W_Q = W_K = 0"),
    ),
    (
        "with",
        equation("ζ_i = ln π_i −", frac("1", "d"), total("j"), "ln π_j, g =", root("|ζ| / |π|"), ", softmax(A_i W_0 W_1) = π"),
    ),
]
_DILUTION: Lines = [
    ("mass is redistributed; ⟨·⟩ is the average over π", _DRIFT),
    ("drift off the plateau", equation("δγ(t) =", frac("κ(t)", "2c"), sub("F", "⊥"), ", κ ∼ e^{2ct}")),
]

EQUATIONS: dict[str, Lines] = {
    "chen2026": _MODEL,
    "chen2026, Lemma 3.1": [
        ("near a critical point", equation(rate("δ"), "= J δ + O(|δ|^2)")),
        ("distance to the linear flow", equation("|δ(t) − e^{Jt} δ(0)| ≤ C ε^2 e^{2 μ t}")),
    ],
    "chen2026, Theorem 3.2": [
        (
            "condensation",
            equation(frac("W_0", "|W_0|"), "→", frac("π", "|π|"), "α^⊤, 'at rate' μ_0 = |π| |π −", frac("1", "d"), "|"),
        ),
        ("attention stands still", equation(frac("∂L", "∂Φ"), "= 0 'at the origin'")),
    ],
    "chen2026, Theorem 3.3": _PLATEAU,
    "chen2026, Theorem 3.5": [
        ("growth of attention at the plateau", equation(rate("W", "Q"), "= c α α^⊤ W_K,", rate("W", "K"), "= c α α^⊤ W_Q")),
        ("with", _FOCUS_RATE),
    ],
    "chen2026, Propositions 3.6 to 3.8": _DILUTION,
    "chen2026, Theorem 3.9": [
        ("the symmetric point is degenerate", equation(frac("∂L", "∂M"), "= 0,", frac("∂L", "∂Φ"), "= 0 'for' δ = 0")),
        ("asymmetry opens it", equation("μ_⊥ = Θ(δ), μ_∥ = O(δ^2)")),
    ],
    "chen2026, focus": [("every query leans to frequent keys", equation(frac("Φ", "|Φ|"), "→", frac("π π^⊤", "|π|^2")))],
    "chen2026, dilution": _DILUTION,
    "chen2026, next cycle": [("the next direction", _NEXT)],
    "chen2026, other chains": [("stationary law kept", equation("π^⊤ P = π^⊤"))],
    "chen2026, text": _MODEL,
    "chen2026, figures as described; derived, Adam": _ADAM,
    "derived, Adam": _ADAM,
    "derived, drive": [("drive of attention", equation("c ∝", total("i"), sup(sub("π", "i"), "2"), "ζ·(P_i − π)"))],
    "derived, degenerate point": [
        (
            "stable up to",
            equation("λ^2 π_l ≤ [π_1", sup(sub("x", "1"), "2"), "P_{1l} + (1 − π_1)", sup(sub("x", "l"), "2"), "P_{ll}] p (1 − p)"),
        )
    ],
    "derived, gradient flow": [("the loss never rises", equation(frac("dL", "dt"), "= −|", frac("∂L", "∂θ"), "|^2 ≤ 0"))],
    "derived, invariants": [
        ("conserved", equation("W_0^⊤ W_0 − W_1 W_1^⊤ − W_Q W_Q^⊤ − W_K W_K^⊤")),
        ("conserved", equation("W_Q^⊤ W_Q − W_K^⊤ W_K")),
    ],
    "derived, linear flow": [
        ("from the origin", equation(rate("W", "0"), "= π u^⊤ W_1^⊤,", rate("W", "1"), "= W_0^⊤ π u^⊤, u = π −", frac("1", "d")))
    ],
    "derived, next cycle": [("directions of the embedding", equation("'rank' W_0 ≤ d − 1"))],
    "derived, next-direction rule": [("the next direction", _NEXT)],
    "derived, plateau": [*_PLATEAU, ("loss there", equation("L = −", total("j"), "π_j ln π_j"))],
    "derived, sign rule": [("sign of focus", equation("'sign'(A_{i0} − π_0) = 'sign'(c)")), ("with", _FOCUS_RATE)],
    "derived, stage I": [
        (
            "growth",
            equation(
                "μ_0 = |π| |π −", frac("1", "d"), "|,", "−", frac("∂L", "∂M"), "= π (π −", frac("1", "d"), ")^⊤ 'at the origin'"
            ),
        )
    ],
    "derived, stage II": [("growth of attention", equation("|α^⊤ W_Q| ∼ e^{ct}, κ ∼ e^{2ct}")), ("with", _FOCUS_RATE)],
    "derived, stage III": _DILUTION,
    "derived, turning rule": [
        ("logit of a query on the frequent token", equation("Φ_{i0} = κ γ_i(κ) γ_0, γ_i(κ) = γ_i −", frac("|F_i|", "2c"), "κ")),
        ("it peaks, and is gone, at", equation("κ ≈", frac("c γ_i", "|F_i|"), ", κ ≈", frac("2 c γ_i", "|F_i|"))),
    ],
}
