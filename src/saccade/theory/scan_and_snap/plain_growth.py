r"""How attention grows under plain descent, and why it does not freeze when Theorem 4 says.

The decoder of plain descent remembers every feature it was taught with. What it sends back to class n is therefore an
average over the past, $\langle f_n\rangle$, less the coupling of the other classes:
$g_n = \gamma\iota_n\langle f_n\rangle - \gamma\sum_{n'}\beta_{nn'}\langle f_{n'}\rangle$. Attention rests where $g_n$ is
parallel to $f_n$, so it can only run ahead of its own past by as much as the coupling allows. If attention is fast this
alone says how far it gets, whatever its rate. Ours. Not here: the coupling itself (pair_coupling.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from .features import limit_attention, normalised_feature
from .pair_coupling import sent_back, taught

__all__ = [
    "SlowestGrowth",
    "fast_plain_growth_rate",
    "late_plain_growth_rate",
    "plain_attention_logits",
    "slow_plain_growth",
    "slowest_plain_growth",
]


class SlowestGrowth(NamedTuple):
    """The least growth per unit of ln t, and the height L = ln(M eta_Y t/K) at which it is met."""

    rate: float
    log_height: float


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
    r"""Attention logits $z_m$ of each class's query under plain descent from zero (time, class, token), any overlaps and rates.

    $\dot z_m = \eta_Z\sum_{n\in\psi^{-1}(m)}P(n)\,f_n\circ(g_n - f_n\,f_n\cdot g_n)$ with
    $g_n = \sum_k\langle f_k\rangle\,a_k\cdot(e_n-\alpha_n)$, $\alpha_n = \mathrm{softmax}(\sum_k f_n\cdot\langle f_k\rangle\,a_k)$,
    $\dot a_k = \eta_YP(k)(e_k-\alpha_k)$ and $\langle f_k\rangle = \frac{1}{a_k[k]}\int f_k\,da_k[k]$. The exact decoder is
    $Y = \sum_k\int f_k(s)\,da_k(s)^\top$; the one step taken is to give all entries of $a_k$ the same memory. With constant
    features it is `plain_coupling`. Domain: as checked against the flow, 0.1 % for weak overlaps and 2 % for overlaps of .7.

    Extends [tian2023, Lemma 4] to [tian2023, eq. 7].

    | ours   | theirs            | axes               |
    |--------|-------------------|--------------------|
    | t      | t (batch-1 steps) | time, from 0 on    |
    | result | z_m, m = psi(n)   | time, class, token |
    """
    prob, weight, times = np.asarray(token_prob, float), np.asarray(class_weight, float), np.asarray(t, float)
    (K, T), (_, row) = prob.shape, np.unique(query, return_inverse=True)
    n_rest, n_queries, held = n_vocab - K, int(row.max()) + 1, prob > 0
    of_query = (row == np.arange(n_queries)[:, None]).astype(float)  # query, class
    sizes = np.cumsum([K * (K + 1), n_queries * T])

    def velocity(s: float, flat: NDArray[np.float64]) -> NDArray[np.float64]:  # in s = ln(1 + eta_Y t)
        a, z, taught_with = np.split(flat, sizes)
        a, z, memory = a.reshape(K, K + 1), z.reshape(n_queries, T), np.zeros((K, T))
        memory[held] = taught_with
        f = normalised_feature(limit_attention(prob, z[row]))
        strength = np.diag(a[:, :K])[:, None]
        past = np.where(strength > 0, memory / np.where(strength > 0, strength, 1.0), f)
        wrong, product = sent_back(a, f @ past.T, n_rest)
        a_dot, h = taught(wrong, weight, n_rest), product @ past
        by_class = lr_attention / lr_decoder * weight[:, None] * f * (h - f * np.sum(f * h, axis=1, keepdims=True))
        z_dot = of_query @ by_class
        return np.exp(s) * np.concatenate([a_dot.ravel(), z_dot.ravel(), (np.diag(a_dot[:, :K])[:, None] * f)[held]])

    s_eval = np.log1p(times * lr_decoder)
    y0 = np.zeros(sizes[-1] + held.sum())
    path = solve_ivp(velocity, (0, s_eval[-1]), y0, method="LSODA", t_eval=s_eval, rtol=1e-6, atol=1e-10)
    return path.y.T[:, sizes[0] : sizes[1]].reshape(len(times), n_queries, T)[:, row]


def slow_plain_growth(
    t: ArrayLike, *, overlap: float, n_vocab: int, n_classes: int, lr_decoder: float, lr_attention: float
) -> NDArray[np.float64]:
    r"""Log growth while attention is slow, $B = \frac{\eta_Z}{\eta_Y}\frac{K-1}{M}[L(e^{\rho L}-1) - \frac{\rho L^2}{2}]$,
    $L = \ln(M\eta_Yt/K)$.

    Ours: $\dot B = \frac{\eta_Z}{K}\xi$ with $\xi = (K-1)\rho\,\gamma\beta$ and `early_plain_coupling`, integrated from
    L = 0. It grows like $\ln^2 t$, then like $t^\rho\ln t$: the opposite of Theorem 4's $\ln\ln t$. Domain: equal overlaps,
    $t \ge t_0$, $\rho L$ below $\ln(M/K)$, logits that have hardly moved.

    | ours    | theirs            |
    |---------|-------------------|
    | t       | t (batch-1 steps) |
    | overlap | rho = E_nn'       |
    """
    K, rho, L = n_classes, overlap, np.log(n_vocab * lr_decoder * np.asarray(t, float) / n_classes)
    return lr_attention / lr_decoder * (K - 1) / n_vocab * (L * np.expm1(rho * L) - rho * L**2 / 2)


def fast_plain_growth_rate(log_height: ArrayLike, *, overlap: float, n_vocab: int, n_classes: int) -> NDArray[np.float64]:
    r"""Growth per unit of $\ln t$ if attention is fast, $\frac{d(z_l-z_c)}{d\ln t} = \Delta' + \Delta/L$, $\Delta = (K-1)\beta$.

    Ours. Fast attention stays where it is pushed nowhere: distinct and common tokens feel the same $g/f$. With
    $g_l/f_l = \gamma\iota\langle f_l\rangle/f_l$ and $g_c/f_c = \gamma\iota(\langle f_c\rangle/f_c - \Delta)$ the gap
    $x = z_l - z_c$ must satisfy $x - \langle x\rangle = \Delta$, the mean taken over L; its derivative is the rate. The
    attention rate has dropped out, and so has the token's frequency: all distinct tokens rise alike. With
    `early_plain_coupling`, $\Delta'+\Delta/L = \frac{K-1}{M}[\frac1L + 3\rho + 2\rho^2L + \ldots]$: a $\ln\ln t$ that soon gives
    way to $\ln t$ and then to $t^\rho$. Domain: as `early_plain_coupling`; $\frac{\eta_Z}{\eta_Y}f^2L^2 \gg 1$.

    | ours       | theirs            |
    |------------|-------------------|
    | log_height | L, M h of Lemma 9 |
    | overlap    | rho = E_nn'       |
    """
    K, rho, L = n_classes, overlap, np.asarray(log_height, float)
    x = rho * L
    # beta M = e^x + (e^x - 1)/x - 1; x d/dx of it is x e^x + e^x - (e^x - 1)/x
    return (K - 1) / n_vocab / L * (x * np.exp(x) + 2 * np.exp(x) - 1)


def slowest_plain_growth(*, overlap: float, n_vocab: int, n_classes: int) -> SlowestGrowth:
    r"""Least growth before plain descent can snap, $6.22\,(K-1)\rho/M$ per unit of $\ln t$ in closed form, at $\rho L = 0.558$.

    Ours: the minimum of `fast_plain_growth_rate`, $\frac{K-1}{M}\frac1L(xe^x+2e^x-1)$ with $x = \rho L$, where
    $(x^2+2x-2)e^x+1 = 0$. It is what $\ln\ln t$ gives way to.

    | ours    | theirs      |
    |---------|-------------|
    | overlap | rho = E_nn' |
    """
    L = brentq(lambda x: (x**2 + 2 * x - 2) * np.exp(x) + 1, 0.1, 1.0) / overlap
    return SlowestGrowth(float(fast_plain_growth_rate(L, overlap=overlap, n_vocab=n_vocab, n_classes=n_classes)), L)


def late_plain_growth_rate(overlap: ArrayLike, *, n_classes: int) -> NDArray[np.float64]:
    r"""Growth per unit of $\ln L$ after plain descent has snapped,
    $\frac{d(z_l-z_c)}{d\ln L} = \frac{\Delta}{1+2\rho(1-\rho)\Delta'}$,
    $\Delta = \ln\frac{1+s^2/(K-1)}{(1-s)^2} \approx 2(K-1)\rho$.

    Ours. Beyond `plain_snap_height` a constant share $s = \frac{(K-1)\rho}{1+(K-2)\rho}$ of the error lies on other classes:
    all wrong answers keep the same margin. Then $g_l/f_l \propto 1+s^2/(K-1)$ and $g_c/f_c \propto (1-s)^2$, and as in
    `fast_plain_growth_rate` $Lx' = (L\Delta)' = \Delta + L\Delta'\rho'$, where the overlap falls with the common token,
    $\rho' = -2\rho(1-\rho)x'$. At constant $\rho$ this is $\ln\ln t$; as $\rho$ falls it is slower still. Domain: fast
    attention, one common token in all classes.

    | ours    | theirs                   |
    |---------|--------------------------|
    | overlap | rho = E_nn' at that time |
    """
    rho, others = np.asarray(overlap, float), n_classes - 1
    s = others * rho / (1 + (others - 1) * rho)
    ahead = np.log1p(s**2 / others) - 2 * np.log1p(-s)
    steepness = (2 * s / (others + s**2) + 2 / (1 - s)) * others / (1 + (others - 1) * rho) ** 2
    return ahead / (1 + 2 * rho * (1 - rho) * steepness)
