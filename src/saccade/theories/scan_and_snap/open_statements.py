r"""What we derived, or ask, about questions that Scan and Snap [tian2023] leaves open. Letters as
NOTATION.md lists them.

Derivations stand with the functions: `pair_coupling.py`, `plain_growth.py`, `fast_attention.py`,
`plain_fates.py`, `wrong_decoder.py`, `gain.py`, `embedded_terms.py`. Throughout L = ln(M eta_Y
t/K), the height of the decoder (Lemma 9).
"""

from functools import partial

from ..statement import OURS, QUESTION, Statement

_ours = partial(Statement, "saccade", kind=OURS)
_asked = partial(Statement, "saccade", kind=QUESTION)

_PLAIN = "plain descent (eq. 7)"
_MODIFIED = "the theory's flow (eq. 26 and Lemma 4)"
_ZERO = "Y(0) = Z(0) = 0"
_EQUAL = "equal overlaps ρ, one common token, one query"
_BEFORE = "first order: 2 ρL (z_l - z_c) + (L/M) ((e^x - 1)/x - 1) at most .11"

PLAIN_MEMORY = _ours(
    "plain descent with memory",
    "Plain descent moves attention as if each class remembered its mean feature",
    (
        r"g_n = \sum_k \langle f_k \rangle a_k \cdot (e_n - \alpha_n),"
        r" \quad \langle f_k \rangle = \frac{1}{a_k[k]} \int f_k da_k[k]",
        r"\dot a_k = \eta_Y P(k) (e_k - \alpha_k), \quad \alpha_n = \mathrm{softmax}(\sum_k f_n^\top \langle f_k \rangle a_k)",
    ),
    (_PLAIN, _ZERO, "contexts of infinite length"),
    "extends tian2023, Lemma 4, to eq. 7",
)
UNEQUAL_COUPLING = _ours(
    "coupling of plain descent, any overlaps",
    "Plain descent couples classes by 1/M at first, later more if they overlap",
    (
        r"\gamma \beta_{nn'} = -a_{n'} \cdot (e_n - \alpha_n) \text{, exactly}",
        r"\text{early: } \frac{\beta_{nn'}}{\iota_n} \approx \frac{1}{M} (e^x + \frac{e^x - 1}{x} - 1), \quad x = E_{nn'} L",
        r"\text{in the end: } \frac{\beta_{nn'}}{\iota_n} = -\frac{(A A^\top)_{nn'}}{(A A^\top)_{nn}}, \quad A = I - E'",
    ),
    (
        _PLAIN,
        "features at rest",
        "Y(0) = 0",
        "early: (K - 1) (e^x - 1) + L ((e^x - 1)/x - 1) well below M",
    ),
    "replaces tian2023, Theorem 1",
)
PLAIN_GROWTH = _ours(
    "growth under plain descent",
    "Plain descent grows at least like ln t where Theorem 4 has ln ln t",
    (
        r"\text{slow attention: } B = \frac{\eta_Z}{\eta_Y} \frac{K - 1}{M} (L (e^{\rho L} - 1) - \frac{\rho L^2}{2})",
        r"\text{fast attention: } \frac{d (z_l - z_c)}{d \ln t} = \frac{K - 1}{M L} (x e^x + 2 e^x - 1), \quad x = \rho L",
        r"\text{at its slowest about } 6.22 \frac{(K - 1) \rho}{M}",
    ),
    (_PLAIN, _ZERO, _EQUAL, _BEFORE),
    "replaces tian2023, Theorem 4, for eq. 7",
)
FAST_GROWTH = _ours(
    "growth of fast attention",
    "Fast attention under plain descent rests where its gradient is parallel to it",
    (
        r"\tan \theta = \frac{(F - (K - 1) G) (1 - (K - 1) q) + (M - K) K r R}{S + (K - 1) q H + (M - K) r Q}, \quad"
        r" z_l - z_c = \ln \frac{\tan \theta_0}{\tan \theta}, \quad \sin^2 \theta_0 = \rho",
        r"(F, G, R) = \int \sin \theta (1, q, r) dA, \quad (S, H, Q) = \int \cos \theta (1, q, r) dA, \quad"
        r" \dot A = \frac{\eta_Y}{K} (1 - p_n)",
        r"q, r \text{: shares of the error on another class's token and on an unused one}",
    ),
    (_PLAIN, _ZERO, _EQUAL, "fast attention: Kρ L² η_Z/η_Y far above 1"),
    "replaces tian2023, Theorem 4, for eq. 7",
)
PLAIN_LATE_SNAP = _ours(
    "when plain descent snaps",
    "Plain descent snaps once other classes are the likeliest wrong answers",
    (
        r"L_s = \frac{1}{\rho} \ln \frac{M}{K}, \quad t_s = \frac{K}{M \eta_Y} (\frac{M}{K})^{1/\rho}",
        r"\text{then } \frac{d (z_l - z_c)}{d \ln L} = \frac{\Delta}{1 + 2 \rho (1 - \rho) \Delta'(\rho)}, \quad"
        r" \Delta = \ln \frac{1 + s^2/(K - 1)}{(1 - s)^2}, \quad s = \frac{(K - 1) \rho}{1 + (K - 2) \rho}",
    ),
    (_PLAIN, _ZERO, _EQUAL, "fast attention"),
    "replaces tian2023, Theorem 4, for eq. 7",
)

RATE_RATIO = _ours(
    "rate ratio, classes alike",
    "If classes are equal, distinct tokens rise at any ratio of the rates",
    (
        r"\dot z_{ml} > 0 \text{ distinct}, \quad \dot z_{ml} < 0 \text{ common, for all } \eta_Y/\eta_Z",
    ),
    (_ZERO, "equal classes, as in Syn-Medium, or the theory's flow", "one query"),
    "limits what tian2023, Assumption 1(c), is needed for",
)
UNEQUAL_FATES = _ours(
    "rate ratio, classes not alike",
    "While logits are small, distinct tokens of a class with a negative lead fall",
    (
        r"\frac{dz}{dL} = \frac{\eta_Z}{\eta_Y} L (b - C (z - \langle z \rangle)), \quad"
        r" C = \sum_n (\mathrm{diag}(f_n^2) - f_n^2 f_n^{2 \top}), \quad"
        r" b = \frac{1}{M} \sum_{n \ne k} f_n \circ (E_{nk} f_n - f_k)",
        r"\text{slow: } z = \frac{\eta_Z}{\eta_Y} \frac{L^2}{2} b \quad \text{fast: } z - \langle z \rangle = C^+ b,"
        r" \text{ of two classes } \frac{\rho}{M} (\frac{1}{c_n} - \frac{1}{N} \sum_k \frac{N_k}{c_k})",
    ),
    (
        _PLAIN,
        _ZERO,
        "one query",
        "small logits",
        "coupling of order 1/M: ρL up to about 1 for signs, well below it for sizes",
    ),
    "limits tian2023, Theorem 2(a), for eq. 7",
)
TURNING_HEIGHT = _ours(
    "when a token turns",
    "A token that must fall rises first, until a height that grows as √(η_Y/η_Z)",
    (
        r"z_l(L^*) = 0 \text{ at } L^* = L^*_1 \sqrt{\eta_Y/\eta_Z}, \quad t^* = \frac{K}{M \eta_Y} e^{L^*}",
    ),
    (
        _PLAIN,
        _ZERO,
        "two classes of one query",
        "unequal enough: a resting lead of at most -.4/M",
        "small logits",
    ),
    "limits tian2023, Theorem 2(a), for eq. 7",
)
SLOW_DECODER = _asked(
    "slow decoder",
    "Does the scan break if the decoder is slower than attention?",
    place="a summary's reading of tian2023, Assumption 1(c)",
)
LARGE_STEPS = _ours(
    "large steps of attention",
    "SGD keeps the scan while steps of attention do not overshoot",
    (
        r"\eta_Z < \frac{2}{\max_t \lambda(t)}, \quad \lambda \text{ the largest eigenvalue of }"
        r" \sum_n P(n) \gamma \iota_n (\mathrm{diag}(f_n^2) - f_n^2 f_n^{2 \top})",
    ),
    (_PLAIN, _ZERO, "long contexts"),
    "after tian2023, Assumption 1(c)",
)
START_GAIN = _ours(
    "relative gain from any start",
    "Theorem 3 from any start: attention at the start counts like frequency",
    (
        r"r_{l/l'|n}(t) = r_{l/l'|n}(0) \chi_l(t),"
        r" \quad 1 + r_{l/l'|n}(0) = (\frac{P(l|n) e^{z_{ml}(0)}}{P(l'|n) e^{z_{ml'}(0)}})^2",
        r"\text{a token } l' \text{ overtakes } l \text{ for good if } z_{ml'}(0) - z_{ml}(0) > \ln \frac{P(l|n)}{P(l'|n)}",
    ),
    (_MODIFIED, "two distinct tokens of one class"),
    "extends tian2023, Theorem 3, to Z(0) other than 0",
)
START_FREQUENCY = _ours(
    "a start is other frequencies",
    "From Z(0) attention moves as from zero with frequencies P e^z(0)",
    (
        r"z_{ml}(t; P, z(0)) - z_{ml}(0) = z_{ml}(t; \tilde P, 0), \quad \tilde P(l|n) \propto P(l|n) e^{z_{ml}(0)}",
    ),
    ("contexts of infinite length",),
    "extends tian2023, Lemma 2",
)
START_WINNER = _asked(
    "winner from any start",
    "Does the token with the largest P e^z(0) win in plain descent too?",
    place="after tian2023, Theorem 3, which is about the theory's flow",
)
START_FATES = _asked(
    "fates from any start",
    "Do distinct tokens rise and common ones fall wherever attention starts?",
    place="after tian2023, Theorem 2",
)
WRONG_DECODER = _ours(
    "wrong decoder",
    "Training recovers from a wrong decoder after a time that grows like e^(S²)",
    (
        r"z_l = -\frac{\eta_Z}{\eta_Y} (S_0^2 - S_l^2), \quad \sum_l z_l = 0",
        r"\ln t_{\text{recovery}} = (1 + \frac{N_D}{N_C}) \frac{\eta_Z}{\eta_Y} S_0^2 + \text{const}",
    ),
    (
        _PLAIN,
        "two classes, one query",
        "every distinct token taken for the other class's, with strength S_0",
        "Z(0) = 0",
    ),
    "after tian2023, Theorem 1, which has Y(0) = 0",
)

_ORTHONORMAL = "orthonormal embeddings, U U^T = I"
REPARAMETERISATION = _ours(
    "reparameterisation",
    "With orthonormal embeddings, training W_Q and W_V equals training Z and Y",
    (
        r"\dot Y = U \dot W_V^\top W_Y^\top = -\eta_Y U U^\top \frac{\partial L}{\partial Y} W_Y W_Y^\top"
        r" = -\eta_Y \frac{\partial L}{\partial Y}",
        r"\dot Z = -\frac{\eta_Z}{d} \frac{\partial L}{\partial Z} U W_K W_K^\top U^\top = -\eta_Z \frac{\partial L}{\partial Z}"
        r" \text{ if } W_K = \sqrt{d} I",
    ),
    (_ORTHONORMAL, "W_Y likewise", "W_K fixed"),
    "makes tian2023, section 3, exact",
)
QUERY_KEY_TERMS = _ours(
    "query and key terms",
    "Moving W_K as well adds two terms of second order in Z",
    (
        r"\dot Z = G + G (\frac{1}{d} B B^\top - I) + \frac{1}{d} A A^\top G, \quad A = U W_Q, \quad B = U W_K",
    ),
    (_ORTHONORMAL, "W_Q(0) = 0, W_K(0) = √d I"),
    "extends tian2023, section 3",
)
FINITE_WIDTH = _ours(
    "finite width",
    "Random embeddings: the distance to the pairwise flow shrinks as d^-1/2",
    (r"U U^\top = I + O(d^{-1/2}), \quad |z - z_{\text{pairwise}}| \propto d^{-1/2}",),
    ("entries of U from N(0, 1/d), fixed", "W_Q and W_V move"),
    "limits tian2023, section 3",
)

FOUR_STAGES = _asked(
    "four stages",
    "Do common tokens fall first, then winners emerge, then attention freezes?",
    (r"t_{\text{suppressed}} < t_{\text{winner}} < t_{\text{frozen}}",),
    place="after tian2023, Fig. 2 and the poster",
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
