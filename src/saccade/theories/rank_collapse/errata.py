"""Where [chen2025] is wrong in print, assumes what is not so, or can be sharpened; then misprints.
Numbers: `docs/errata.md`.
"""

from ..statement import Correction, Dropped, Misprint

ERRATUM_3_1 = Correction.headed(
    "3.1: A factor of one half in eq. 5",
    r"L = \frac{1}{2n} \sum_i (1 - \epsilon^3 \frac{y_i}{s} \sum_j X_{ij} W_V W^{[1]} W^{[2]})",
    r"L = \frac{1}{n} \sum_i (1 - \epsilon^3 \frac{y_i}{s} \sum_j X_{ij} W_V W^{[1]} W^{[2]})",
    "The exponential loss is 1 at the origin; the half belongs to the slope of the logistic loss.",
)
ERRATUM_3_2 = Correction.headed(
    "3.2 (as defined): Columns condense, rows need not",
    r"\text{rows of } W_V \text{ condense, equivalently its columns}",
    r"\text{columns of } W_V \to v \text{; row } k \to \pm w / |w| \text{ only if } v_k \ne 0",
    "W_V moves along v alone, so a row with v_k = 0 keeps the direction it started with.",
)
ERRATUM_3_3 = Correction.headed(
    "3.3 (as stated): Proposition 1 needs labels that are correlated with the mean token",
    r"1 - L = O(\epsilon^3) \text{ for any data}",
    r"1 - L = O(\epsilon^5) \text{ if } \sum_i y_i \sum_j X_{ij} = 0",
    "If the labels' mean tokens balance, the cubic term is zero and the proposition says nothing.",
)
ERRATUM_3_4 = Correction.headed(
    "3.4 (as assumed; sharpened): Degenerate starts blow up too",
    r"\text{the start is non-degenerate (eq. 10)}",
    r"\text{sufficient, not necessary: the exceptional starts have codimension } d \text{, eq. 10 has codimension one}",
    "Eq. 10 is a constant of motion; starts on its zero set with negative energy still blow up if the width exceeds one.",
)
ERRATUM_3_5 = Correction.headed(
    "3.5 (as assumed; sharpened): Assumption 1 is superfluous",
    r"\text{Assumption 1 at some time}",
    r"\text{every blow-up condenses: } (w, A, b) \to (a, a c^\top, c) / (T^* - t)",
    "All critical points of E on the sphere with E > 0 are of rank one, so a random start ends inside Assumption 1 by itself.",
)
ERRATUM_3_6 = Correction.headed(
    "3.6 (as read): W_V does not stay on v",
    r"W_V \text{ condenses to } v",
    r"\text{only while eq. 7 holds; then its direction turns to } \beta^* \text{, where } \tilde L_1 \text{ is least}",
    "The cubic flow ends when the loss begins to fall, and from there on the minimum of the uniform loss draws W_V.",
)
ERRATUM_3_7 = Correction.headed(
    "3.7: Eq. 39 holds from some time on, not for all times",
    r"T^* \ge t + \frac{1}{C} E(t)^{-1/3} \text{ for all } t < T^* \text{, one } C",
    r"C \ge E(0)^{-1/3} / T^* \text{ at } t = 0 \text{: unbounded as } E(0) \to 0 \text{; true for } t \ge T_3, C = 1 + o(1)",
    "A start of small positive energy blows up as fast as any other, while the printed bound lets it wait forever.",
)
ERRATUM_3_8 = Correction.headed(
    "3.8 (as assumed; true): With tanh there is no critical plateau",
    r"\text{outer gradients } O(\delta^2) \text{ on the plateau, tanh in its linear regime}",
    r"\min |\nabla_{out} L| \sim \epsilon^{2\rho / (\rho + 2 s_1)} \text{ if linear; with tanh } (\ln \frac{1}{\epsilon})^{-k}",
    "With tanh the outer weights never come to rest: their gradient falls like a power of time, so of ln(1/ε), not of ε.",
)
ERRATUM_3_9 = Correction.headed(
    "3.9: Assumption 2* gives outer gradients of order δ",
    r"|\nabla_{out} L| = O(\delta^2) \text{ if } \frac{d}{dt} L_{1,i} = O(\delta^2)",
    r"|\nabla_{out} L| = O(\delta) \text{, since } -\frac{dL}{dt} = |\nabla L|^2",
    "Along a gradient flow the loss falls with the square of the gradient: a square is lost in App. A.4.",
)
ERRATUM_3_11 = Correction.headed(
    "3.11: Fig. 2 counts columns where it means rows",
    r"A_2 = \text{number of } (i, j: \langle W_{v,i} W^{[1],i}, W_{v,j} W^{[1],j} \rangle > 0) \text{, columns}",
    r"A_2 = \text{number of } (i, j: \langle W_{v,i} W_i^{[1]}, W_{v,j} W_j^{[1]} \rangle > 0) \text{, rows}",
    "Assumption 1 is about rows of the hidden matrix; columns weighted by W_v point to both sides forever.",
)
ERRATUM_3_12 = Correction.headed(
    "3.12: Which anchors are equivalent",
    r"\text{anchors } (1, 2) \text{ and } (3, 4) \text{ are equivalent}",
    r"\text{anchors } (1, 3) \text{ and } (2, 4) \text{ are equivalent}",
    "The target of eq. 60 depends on the anchor modulo two.",
)
MISPRINTS = (
    Misprint(
        "Proposition 2, App. A.1.1",
        "W_kk'^[2]; a third equation that is not stated",
        "W_k'^[2]; d|W_v|²/dt = 2E",
    ),
    Misprint(
        "App. A.1.2, eq. 16",
        "power 3 in the inequality of means, its factor 3 lost a line later",
        "power 1/3, factor 3",
    ),
    Misprint(
        "App. A.1.2",
        "W_k'^[1] in the second derivative of W_v",
        "W_k'^[2]: Ẅ_v = |W^[2]|² W_v + W_v W^[1] W^[1]ᵀ",
    ),
    Misprint(
        "App. A.1.2", "Ẅ^[1] → 0 since W^[1] → 0, hence Ẇ_v → 0", "since W^[2] → 0, hence Ẇ^[2] → 0"
    ),
    Misprint("App. A.1.2", "2E|W^[1]|² in the derivative of |Ẇ_v|²", "2E|W^[2]|²"),
    Misprint(
        "Definition 5, Proposition 5(ii)",
        "angle of W_v,i W_i^[1] and W_v,j W_i^[1]",
        "W_v,i W_i^[1] and W_v,j W_j^[1]",
    ),
    Misprint(
        "Proposition 4, third display",
        "Ẇ_v,i² + Σ W_v,i W_v,j ⟨W^[1],j, W^[1],i⟩",
        "Ẇ_i^[2]² + Σ W_i^[2] W_j^[2] ⟨W^[1],j, W^[1],i⟩",
    ),
    Misprint(
        "Proposition 6",
        "W^[2] twice in the numerator, which is then zero; an undefined index",
        "Ẇ^[2] twice; Ẇ_i^[1]",
    ),
    Misprint("Proposition 6", "the inequality of means", "the inequality of Cauchy and Schwarz"),
    Misprint("eq. 33", "squares of dotted norms in the denominators", "undotted, as in eq. 22"),
    Misprint("Proposition 8", "Ė ≤ 4(...)E", "Ė ≤ 4(...)E^(4/3)"),
    Misprint(
        "eq. 49, last line",
        "products whose shapes do not fit, transposed dW_Q",
        "tr(W_Kᵀ S β X_s dW_Q)",
    ),
    Misprint(
        "Assumption 1, App. B",
        "one index set of size d_m",
        "two: d_m and d_ff, 640 and 1280 in App. B",
    ),
)
DROPPED: tuple[Dropped, ...] = ()
