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

MISPRINTS: tuple[Misprint, ...] = ()
