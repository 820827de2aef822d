r"""How long plain descent takes to get over a decoder that starts out wrong. Ours.

Two classes; each row of Y(0) that belongs to a distinct token takes it for the other class's, with
strength $S_0$: the row has $-S$ at its own next token and $S$ at the other. Attention flees such
tokens, and the less they are attended to, the slower their rows are mended. Both move with the same
factor, the token's feature times the error: $\dot S_l = -\eta_YP(n)f_l\,\epsilon_n$ and $\dot z_l =
-2\eta_ZP(n)f_l\,\epsilon_n S_l$, so that $z_l = -\frac{\eta_Z}{\eta_Y}(S_0^2 - S_l^2)$ whatever the
path. The logits of a query always add up to what they were, so the common tokens rise by what the
distinct ones lose. When the rows are neutral, S = 0, a distinct token's weight against a common one
has fallen by the factor $e^{-X}$, $X = (1 + N_D/N_C)\frac{\eta_Z}{\eta_Y}S_0^2$, and that is how
much slower the last of the mending goes. There is no strength from which it never ends.
"""

from ...errors import checked_count

__all__ = ["deepest_logit", "recovery_exponent"]


def deepest_logit(strength: float, *, lr_decoder: float, lr_attention: float) -> float:
    r"""Logit of a distinct token when its row is neutral again, $-\frac{\eta_Z}{\eta_Y}S_0^2$; then
    it rises.

    Ours. Domain: two classes, the token's share of attention small; from Z(0) = 0.

    | ours     | letter |
    |----------|--------|
    | strength | S_0    |
    """
    return -lr_attention / lr_decoder * strength**2


def recovery_exponent(
    strength: float, *, n_distinct: int, n_common: int, lr_decoder: float, lr_attention: float
) -> float:
    r"""Logarithm of the recovery time up to a constant, $(1 + N_D/N_C)\frac{\eta_Z}{\eta_Y}S_0^2$.

    Ours. `n_distinct` counts those of all classes of the query. Domain: as `deepest_logit`;
    $\frac{\eta_Z}{\eta_Y}S_0^2$ above 1.

    | ours                 | letter   |
    |----------------------|----------|
    | strength             | S_0      |
    | n_distinct, n_common | N_D, N_C |
    """
    return -(1 + n_distinct / checked_count("n_common", n_common)) * deepest_logit(
        strength, lr_decoder=lr_decoder, lr_attention=lr_attention
    )
