"""How fast the decoder learns one class: the height h of its logits, draw by draw and in continuous
time.

In the coordinates W = F^T Y each class learns alone, so its logits stay on one ray, w_n = (M - 1) h
zeta_n, and the whole decoder is one number per class, h(number of times the class was drawn). Time
here is *draws of the class*; clock.py turns training steps into draws. Not here: how classes
disturb each other under plain gradient descent (plain_descent.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, lambertw, wrightomega

__all__ = [
    "RegimeExponents",
    "class_directions",
    "class_error",
    "decoder_height",
    "decoder_height_discrete",
    "draws_to_height",
    "early_decoder_height",
    "late_decoder_height",
    "regime_exponents",
]


class RegimeExponents(NamedTuple):
    """Where the exponential and the linear term of Lemma 6 balance, as corrections to powers and
    logarithms of M.
    """

    omega_0: float
    omega_1: float


def class_directions(*, n_classes: int, n_vocab: int) -> NDArray[np.float64]:
    r"""The ray each class's logits move along, $\zeta_n = \frac{M}{M-1}(e_n - \mathbf 1/M)$, one
    row per class.

    [tian2023, Lemma 5]. $\zeta_n\cdot\zeta_n = q_1 = 1 + 1/(M-1)$ and $\zeta_n\cdot\zeta_{n'} = q_0
    = -M/(M-1)^2$.
    """
    K, M = n_classes, n_vocab
    return M / (M - 1) * (np.eye(K, M) - 1 / M)


def class_error(height: ArrayLike, *, n_vocab: int) -> NDArray[np.float64]:
    r"""Probability the right next token still lacks, $1 - \alpha_{nn} = (M-1)/(M-1+e^{Mh})$.

    [tian2023, Lemma 5]; it is the whole error, since $e_n - \alpha_n = (1 - \alpha_{nn})\,\zeta_n$.
    Domain: h >= 0, M >= 2.

    | ours    | theirs  |
    |---------|---------|
    | height  | h or h* |
    """
    M = n_vocab
    return expit(np.log(M - 1) - M * np.asarray(height, float))


def decoder_height_discrete(
    n_draws: int, *, n_vocab: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""Exact height after 0, 1, ..., `n_draws` draws, $h^*(s) = h^*(s-1) + \eta_Y/(M - 1 + e^{M
    h^*(s-1)})$, $h^*(0) = 0$.

    [tian2023, Lemma 5]. The class's logits are then $w_n(s) = (M-1) h^*(s)\,\zeta_n$, for the
    modified gradient (eq. 26) at constant features and Y(0) = 0, whatever the other classes did
    meanwhile.

    | ours       | theirs      |
    |------------|-------------|
    | n_draws    | s (largest) |
    """
    M, eta_Y = n_vocab, lr_decoder
    height = np.zeros(n_draws + 1)
    for s in range(1, n_draws + 1):
        height[s] = height[s - 1] + eta_Y * np.exp(-np.logaddexp(np.log(M - 1), M * height[s - 1]))
    return height


def decoder_height(t: ArrayLike, *, n_vocab: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Height in continuous time: $\dot h = \eta_Y/(M-1+e^{Mh})$, $h(0) = 0$, hence $e^{Mh} +
    (M-1)Mh = M\eta_Y t + 1$.

    [tian2023, Lemma 6]. Solved by the Lambert function: with $a = (M\eta_Y t + 1)/(M-1)$, $Mh = a -
    W_0(e^a/(M-1)) = \ln[(M-1)\,\omega(a - \ln(M-1))]$, where $\omega(b) = W_0(e^b)$ is Wright's
    omega. Lemma 7: $0 \le h^*(s) - h(s) \le 2\eta_Y/M$. Domain: M >= 2, 0 <= eta_Y t <= 1e307.

    | ours       | theirs                        |
    |------------|-------------------------------|
    | t          | t or s (draws of the class)   |
    """
    M, drawn = n_vocab, lr_decoder * np.asarray(t, float)
    # W_0(e^a / (M-1)) overflows at a = 709 and a - W_0 loses every digit later; omega takes the log
    # as its argument.
    x = np.log(M - 1) + np.log(wrightomega((drawn + 1 / M) * (M / (M - 1)) - np.log(M - 1)))
    # That leaves 1e-16 absolute, which is no digit at all near t = 0. One Newton step on Lemma 6
    # makes it relative, taken on the equation times e^{-x}, which cannot overflow.
    decay = np.exp(-x)
    x = x - (-np.expm1(-x) + (M - 1) * x * decay - drawn * (M * decay)) / (1 + (M - 1) * decay)
    return x / M


def draws_to_height(height: ArrayLike, *, n_vocab: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Draws of a class until its height is h, $t = [e^{Mh} - 1 + (M-1)Mh]/(M\eta_Y)$:
    `decoder_height` inverted.

    [tian2023, Lemma 6]. Domain: h >= 0.

    | ours       | theirs |
    |------------|--------|
    | height     | h      |
    """
    M, x = n_vocab, n_vocab * np.asarray(height, float)
    return (np.expm1(x) + (M - 1) * x) / (M * lr_decoder)


def early_decoder_height(t: ArrayLike, *, n_vocab: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Height while every next token is still about equally likely, $h \approx \eta_Y t/M$, for $t
    \le \ln M/\eta_Y$.

    [tian2023, Lemma 9].

    | ours       | theirs                    |
    |------------|---------------------------|
    | t          | t/K (draws of the class)  |
    """
    return lr_decoder * np.asarray(t, float) / n_vocab


def late_decoder_height(t: ArrayLike, *, n_vocab: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Height once the class is learned, $h \approx \ln(M\eta_Y t)/M$, for $t \ge 2(1+\omega_1)\ln
    M/\eta_Y$.

    [tian2023, Lemma 9, eq. 57].

    | ours       | theirs                    |
    |------------|---------------------------|
    | t          | t/K (draws of the class)  |
    """
    return np.log(n_vocab * lr_decoder * np.asarray(t, float)) / n_vocab


def regime_exponents(*, n_vocab: int) -> RegimeExponents:
    r"""The corrections in $e^{Mh} \le (M-1)Mh \iff M^{-(2-\omega_0)} \le h \le (1+\omega_1)\ln
    M/M$.

    [tian2023, Lemma 8]. Exact through both real branches of the Lambert function: the two heights
    are $-W_k(-1/(M-1))/M$, k = 0 and -1. $\omega_1 = \Theta(\ln\ln M/\ln M)$ falls slowly: 0.40 at
    M = 100, 0.20 at M = 10^6. Domain: M >= 4 (below, the exponential is always the larger).
    """
    M = n_vocab
    low, high = (float(-lambertw(-1 / (M - 1), branch).real) for branch in (0, -1))
    return RegimeExponents(
        omega_0=1 + float(np.log(low) / np.log(M)), omega_1=high / float(np.log(M)) - 1
    )
