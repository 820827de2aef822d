"""Plain gradient descent on the decoder when all classes overlap equally: what Theorem 1 should say
for real training.

Theorem 1 is about the modified gradient. Plain descent (eq. 7) keeps a symmetry of its own, every
class alike and every unused next token alike, and so reduces to three numbers a, b, c; from them
the true coupling follows, far below E'. Ours, apart from Remark 1. Not here: unequal overlaps
(pair_coupling.py), what the coupling does to attention (plain_growth.py).
"""

from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from .decoder import decoder_height_discrete

__all__ = ["PlainBackprop", "plain_backprop", "remark_1_logit"]


class PlainBackprop(NamedTuple):
    """One value per time: logits of class n for tokens n and n', and gamma iota, gamma beta of
    Theorem 1.
    """

    own_logit: NDArray[np.float64]
    other_logit: NDArray[np.float64]
    own: NDArray[np.float64]
    other: NDArray[np.float64]


def _logits(a: ArrayLike, b: ArrayLike, c: ArrayLike, *, rho: float, K: int) -> NDArray[np.float64]:
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    return np.stack([a - rho * (K - 1) * b, -b + rho * (a - (K - 2) * b), -c * (1 + rho * (K - 1))])


def _probabilities(logits: NDArray[np.float64], *, K: int, M: int) -> NDArray[np.float64]:
    multiplicity = np.reshape([1, K - 1, M - K], (3,) + (1,) * (logits.ndim - 1))
    return np.exp(logits - logsumexp(logits, axis=0, b=multiplicity))


def plain_backprop(
    t: ArrayLike, *, overlap: float, n_vocab: int, n_classes: int, lr_decoder: float
) -> PlainBackprop:
    r"""Logits and backpropagated coefficients under plain descent with equal overlaps $\rho$ and
    uniform classes.

    $Y = \sum_n f_n a_n^\top$ with $a_n[n] = a$, $a_n[n'] = -b$, $a_n[\text{other}] = -c$; the
    logits of class n are $w[n] = a-\rho(K-1)b$, $w[n'] = -b+\rho(a-(K-2)b)$, $w[o] =
    -c(1+\rho(K-1))$, p their softmax, and $\dot a = \frac{\eta_Y}{K}(1-p_n)$, $\dot b =
    \frac{\eta_Y}{K}p_{n'}$, $\dot c = \frac{\eta_Y}{K}p_o$. Then $\gamma\beta = b(1-p_n) +
    a\,p_{n'} - (K-2)b\,p_{n'} - (M-K)c\,p_o$ and $\gamma\iota = a(1-p_n) + (K-1)b\,p_{n'} +
    (M-K)c\,p_o$.

    Replaces [tian2023, Theorem 1] for [tian2023, eq. 7]. At small t, $\beta \approx 1/M$ whatever
    $\rho$; for K = M, $\beta/\iota = 1/(M-1)$ exactly at all times. Domain: $0 \le \rho < 1$, $2
    \le K \le M$, t >= 0 increasing.

    | ours         | theirs                | axes |
    |--------------|-----------------------|------|
    | t            | t (batch-1 steps)     | time |
    | result.own   | gamma iota            | time |
    | result.other | gamma beta            | time |
    """
    rho, M, K, times = overlap, n_vocab, n_classes, np.atleast_1d(np.asarray(t, float))

    def velocity(_t: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        _, p_other, p_rest = _probabilities(_logits(*state, rho=rho, K=K), K=K, M=M)
        return lr_decoder / K * np.array([(K - 1) * p_other + (M - K) * p_rest, p_other, p_rest])

    path = scipy.integrate.solve_ivp(
        velocity, (0, times[-1]), np.zeros(3), t_eval=times, method="LSODA", rtol=1e-10, atol=1e-14
    )
    a, b, c = path.y
    logits = _logits(a, b, c, rho=rho, K=K)
    _, p_other, p_rest = _probabilities(logits, K=K, M=M)
    missing = (K - 1) * p_other + (
        M - K
    ) * p_rest  # 1 - p_n, kept to full precision once p_n is near 1
    return PlainBackprop(
        own_logit=logits[0],
        other_logit=logits[1],
        own=a * missing + (K - 1) * b * p_other + (M - K) * c * p_rest,
        other=b * missing + (a - (K - 2) * b) * p_other - (M - K) * c * p_rest,
    )


def remark_1_logit(
    n_draws: int, *, overlap: float, n_vocab: int, lr_decoder: float, as_printed: bool = False
) -> NDArray[np.float64]:
    r"""The logit $w_n[n]$ after 0, 1, ..., `n_draws` draws, $(M-1)\,h^*$ run at the rate
    $(1-\rho)\eta_Y$.

    [tian2023, Remark 1] in words, true only for K = M, where $\sum_n\zeta_n = 0$. With
    `as_printed`, eq. 43: $(1-\rho)(M-1)h^*$ at the full rate, which fails even there (4.12 for
    4.81). For K < M both fail: at M = 200, K = 4, overlap .2, plain descent reaches 7.77, the
    modified gradient 7.76 and eq. 43 6.21.

    | ours       | theirs                |
    |------------|-----------------------|
    | n_draws    | s (largest)           |
    """
    M, rate, amplitude = n_vocab, (1 - overlap) * lr_decoder, 1.0
    if as_printed:
        rate, amplitude = lr_decoder, 1 - overlap
    return amplitude * (M - 1) * decoder_height_discrete(n_draws, n_vocab=M, lr_decoder=rate)
