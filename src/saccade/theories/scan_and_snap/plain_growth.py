r"""How attention grows under plain descent, and why it does not freeze when Theorem 4 says.

The decoder of plain descent remembers every feature it was taught with. What it sends back to class
n is therefore an average over the past, $\langle f_n\rangle$, less the coupling of the other
classes: $g_n = \gamma\iota_n\langle f_n\rangle - \gamma\sum_{n'}\beta_{nn'}\langle f_{n'}\rangle$.
Attention rests where $g_n$ is parallel to $f_n$, so it can only run ahead of its own past by as
much as the coupling allows. Ours. Not here: the coupling itself (pair_coupling.py), attention so
fast that it is always at rest (fast_attention.py).
"""

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from .features import limit_attention, normalised_feature
from .pair_coupling import sent_back, taught

__all__ = ["plain_attention_logits", "slow_plain_growth"]


def plain_attention_logits(
    t: ArrayLike,
    *,
    token_prob: ArrayLike,
    query: ArrayLike,
    class_weight: ArrayLike,
    n_vocab: int,
    lr_decoder: float,
    lr_attention: float,
) -> NDArray[np.float64]:
    r"""Attention logits $z_m$ of each class's query under plain descent from zero (time, class,
    token), any overlaps and rates.

    $\dot z_m = \eta_Z\sum_{n\in\psi^{-1}(m)}P(n)\,f_n\circ(g_n - f_n\,f_n\cdot g_n)$ with $g_n =
    \sum_k\langle f_k\rangle\,a_k\cdot(e_n-\alpha_n)$, $\alpha_n = \mathrm{softmax}(\sum_k
    f_n\cdot\langle f_k\rangle\,a_k)$, $\dot a_k = \eta_YP(k)(e_k-\alpha_k)$ and $\langle f_k\rangle
    = \frac{1}{a_k[k]}\int f_k\,da_k[k]$. The exact decoder is $Y = \sum_k\int
    f_k(s)\,da_k(s)^\top$; the one step taken is to give all entries of $a_k$ the same memory. With
    constant features it is `plain_coupling`. Domain: that step is exact while wrong answers of
    other classes are few, up to the height $L_s$ of `plain_snap_height` for the largest overlap.
    Beyond it those entries were taught late, with other features; checked against flows, logits are
    still right to 2 % of the largest where classes are alike, and so is the height at which a token
    of unequal classes turns up to 5 $L_s$, not further (12 % at 50 $L_s$).

    Extends [tian2023, Lemma 4] to [tian2023, eq. 7].

    | ours   | theirs            | axes               |
    |--------|-------------------|--------------------|
    | t      | t (batch-1 steps) | time, from 0 on    |
    | result | z_m, m = psi(n)   | time, class, token |
    """
    prob, weight, times = (
        np.asarray(token_prob, float),
        np.asarray(class_weight, float),
        np.asarray(t, float),
    )
    (K, T), (_, row) = prob.shape, np.unique(query, return_inverse=True)
    if (
        times.ndim != 1
        or times[0] < 0
        or not np.all(np.diff(times) > 0)
        or not np.isfinite(times[-1])
    ):
        raise InputError("`t` must be increasing times, none below 0.")
    if n_vocab < K:
        raise InputError(
            f"`n_vocab` must be at least the number of classes, {K}: each has a different next token; got {n_vocab}."
        )
    n_rest, n_queries, held = n_vocab - K, int(row.max()) + 1, prob > 0
    of_query = (row == np.arange(n_queries)[:, None]).astype(float)  # query, class
    sizes = np.cumsum([K * (K + 1), n_queries * T])

    def velocity(
        s: float, flat: NDArray[np.float64]
    ) -> NDArray[np.float64]:  # in s = ln(1 + eta_Y t)
        a, z, taught_with = np.split(flat, sizes)
        a, z, memory = a.reshape(K, K + 1), z.reshape(n_queries, T), np.zeros((K, T))
        memory[held] = taught_with
        f = normalised_feature(limit_attention(prob, z[row]))
        strength = np.diag(a[:, :K])[:, None]
        past = np.where(strength > 0, memory / np.where(strength > 0, strength, 1.0), f)
        wrong, product = sent_back(a, f @ past.T, n_rest)
        a_dot, h = taught(wrong, weight, n_rest), product @ past
        by_class = (
            lr_attention
            / lr_decoder
            * weight[:, None]
            * f
            * (h - f * np.sum(f * h, axis=1, keepdims=True))
        )
        z_dot = of_query @ by_class
        return np.exp(s) * np.concatenate(
            [a_dot.ravel(), z_dot.ravel(), (np.diag(a_dot[:, :K])[:, None] * f)[held]]
        )

    s_eval = np.log1p(times * lr_decoder)
    y0 = np.zeros(sizes[-1] + held.sum())
    path = scipy.integrate.solve_ivp(
        velocity, (0, s_eval[-1]), y0, method="LSODA", t_eval=s_eval, rtol=1e-6, atol=1e-10
    )
    return path.y.T[:, sizes[0] : sizes[1]].reshape(len(times), n_queries, T)[:, row]


def slow_plain_growth(
    t: ArrayLike,
    *,
    overlap: float,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
) -> NDArray[np.float64]:
    r"""Log growth while attention is slow, $B = \frac{\eta_Z}{\eta_Y}\frac{K-1}{M}[L(e^{\rho L}-1)
    - \frac{\rho L^2}{2}]$, $L = \ln(M\eta_Yt/K)$.

    Ours: $\dot B = \frac{\eta_Z}{K}\xi$ with $\xi = (K-1)\rho\,\gamma\beta$ and
    `early_plain_coupling`, integrated from L = 0. It grows like $\ln^2 t$, then like $t^\rho\ln t$:
    the opposite of Theorem 4's $\ln\ln t$. Domain: equal overlaps, $t \ge t_0$, $\rho L$ below
    $\ln(M/K)$, logits that have hardly moved.

    | ours    | theirs            |
    |---------|-------------------|
    | t       | t (batch-1 steps) |
    | overlap | rho = E_nn'       |
    """
    K, rho, L = n_classes, overlap, np.log(n_vocab * lr_decoder * np.asarray(t, float) / n_classes)
    return lr_attention / lr_decoder * (K - 1) / n_vocab * (L * np.expm1(rho * L) - rho * L**2 / 2)
