r"""How plain descent couples classes of any overlaps: exactly, early on, and in the end.

With features held fixed, plain descent (eq. 7) keeps $Y = \sum_k f_k a_k^\top$, whatever the
overlaps. So the decoder is K vectors $a_k$ over K + 1 kinds of next token (the classes' own, and
one for all the others), and what it sends back has the form of Theorem 1 exactly, with
$\gamma\beta_{nn'} = -a_{n'}\cdot(e_n-\alpha_n)$ in place of $\gamma E'_{nn'}$. Two closed forms
follow. Early, another class is just one of M wrong answers and the coupling starts at 1/M; features
that overlap by $\rho$ make that answer likelier by $t^\rho$. In the end all wrong answers are held
off by the same margin, the decoder is that of Theorem 1, and the coupling is between one and two
times E'. Ours. Not here: what attention does with it.
"""

from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import exprel

from ...errors import checked_number
from .features import class_coupling

__all__ = [
    "PlainCoupling",
    "early_plain_coupling",
    "late_plain_coupling",
    "plain_coupling",
    "plain_snap_height",
]


class PlainCoupling(NamedTuple):
    """What plain descent sends back, by time; the diagonal of `other` is 0."""

    own: NDArray[np.float64]  # gamma iota (time, class)
    other: NDArray[np.float64]  # gamma beta (time, class, other class)
    strength: NDArray[np.float64]  # a_n[n]: what class n has been taught (time, class)
    error: NDArray[np.float64]  # 1 - p_n (time, class)


def sent_back(
    a: NDArray[np.float64], gram: NDArray[np.float64], n_rest: int
) -> tuple[NDArray, NDArray]:
    r"""Wrong probabilities $p_{nj}$, 0 at the own token (class, kind of token), and
    $a_k\cdot(e_n-\alpha_n)$ (n, k).

    `a` (class, kind of token): the last kind stands for `n_rest` tokens alike. 1 - p_n is summed
    from the others: it keeps its digits when p_n is near 1.
    """
    K = len(a)
    size = np.append(np.ones(K), n_rest)
    logits = gram @ a
    gap = logits - np.diag(logits)[:, None]
    np.fill_diagonal(gap, -np.inf)
    # A logarithm of a sum of exponentials by hand: this is called at every step of a solver, where
    # SciPy's took half of the time.
    top = gap.max(axis=1, keepdims=True)
    total = top + np.log(np.exp(gap - top) @ size)[:, None]
    wrong = np.exp(gap - np.logaddexp(0.0, total))  # p_nj of one token of each kind
    counted = wrong * size
    return wrong, counted.sum(axis=1)[:, None] * a[:, :K].T - counted @ a.T


def plain_coupling(
    t: ArrayLike, *, overlap: ArrayLike, class_weight: ArrayLike, n_vocab: int, lr_decoder: float
) -> PlainCoupling:
    r"""Backpropagated coefficients under plain descent for any overlaps and class weights, features
    held fixed.

    $\dot a_k = \eta_Y P(k)(e_k - \alpha_k)$, $\alpha_n = \mathrm{softmax}(\sum_k (I+E)_{nk}a_k)$,
    $a_k(0) = 0$; then $\gamma\iota_n = a_n\cdot(e_n-\alpha_n)$ and $\gamma\beta_{nn'} =
    -a_{n'}\cdot(e_n-\alpha_n)$. Exact: for constant F, $\dot Y = \eta_Y\sum_n
    P(n)f_n(e_n-\alpha_n)^\top$ never leaves $Y = \sum_k f_ka_k^\top$, and $g_n = Y(e_n-\alpha_n) =
    \sum_k f_k\,a_k\cdot(e_n-\alpha_n)$. Integrated in $\ln t$, where it is smooth to any time.

    Replaces [tian2023, Theorem 1] for [tian2023, eq. 7]. Domain: t > 0 increasing, attention at
    rest (slow attention).

    | ours     | theirs            | axes               |
    |----------|-------------------|--------------------|
    | t        | t (batch-1 steps) | time               |
    | overlap  | E                 | class, class       |
    | other    | gamma beta        | time, class, class |
    """
    E, weight, times = (
        np.asarray(overlap, float),
        np.asarray(class_weight, float),
        np.atleast_1d(np.asarray(t, float)),
    )
    K, gram = len(E), np.eye(len(E)) + E

    def velocity(
        s: float, flat: NDArray[np.float64]
    ) -> NDArray[np.float64]:  # in s = ln(1 + eta_Y t)
        wrong, _ = sent_back(flat.reshape(K, K + 1), gram, n_vocab - K)
        return np.exp(s) * taught(wrong, weight, n_vocab - K).ravel()

    s_eval = np.log1p(times * lr_decoder)
    path = scipy.integrate.solve_ivp(
        velocity,
        (0, s_eval[-1]),
        np.zeros(K * (K + 1)),
        method="LSODA",
        t_eval=s_eval,
        rtol=1e-9,
        atol=1e-13,
    )
    own, other, error, strength = [], [], [], []
    for flat in path.y.T:
        a = flat.reshape(K, K + 1)
        wrong, product = sent_back(a, gram, n_vocab - K)
        own.append(np.diag(product))
        other.append(np.where(np.eye(K, dtype=bool), 0.0, -product))
        error.append(wrong[:, :K].sum(axis=1) + (n_vocab - K) * wrong[:, K])
        strength.append(np.diag(a[:, :K]))
    return PlainCoupling(np.array(own), np.array(other), np.array(strength), np.array(error))


def taught(
    wrong: NDArray[np.float64], rate: NDArray[np.float64], n_rest: int
) -> NDArray[np.float64]:
    """Velocity of `a`: the rate of each class times e_k - alpha_k (class, kind of token)."""
    K = len(wrong)
    push = -wrong
    push[np.arange(K), np.arange(K)] = wrong[:, :K].sum(axis=1) + n_rest * wrong[:, K]
    return rate[:, None] * push


def early_plain_coupling(
    log_height: ArrayLike, overlap: ArrayLike, *, n_vocab: int
) -> NDArray[np.float64]:
    r"""Coupling of two classes once the decoder is right, $\beta \approx \frac1M[e^{x} +
    \frac{e^{x}-1}{x} - 1]$, $x = \rho L$, $L = \ln(M\eta_Yt/K)$.

    Ours. Late in the scan $1-p_n = K/(\eta_Yt)$, so $a_n[n] = L$. Of M wrong answers the class n' has
    $p_{nn'} = p_oe^{\rho L}$: its logit is higher by $f_n\cdot f_{n'}$ times what n' was taught. Then
    $-a_{n'}[n] = \int p_{n'n} = \frac1M\int e^{\rho L}dL$, and $\gamma\beta_{nn'} = -a_{n'}[n](1-p_n) + a_{n'}[n']p_{nn'}
    - \ldots$ adds up to $\gamma\beta = \frac{K}{\eta_Yt}\frac1M[\frac{e^{\rho L}-1}{\rho} - L + Le^{\rho L}]$; $\beta$ is
    that over $\gamma\iota = KL/(\eta_Yt)$. Each pair has its own $\rho$: the most alike couple most, by a power of t.
    Starts at 1/M whatever $\rho$. Domain: $t \ge t_0$, and $\frac1M[(K-1)(e^x-1) + L(\frac{e^x-1}{x}-1)]$ small, which is about
    its relative error: the other classes' part of all errors, and how much less likely they have become by being taught.

    | ours       | theirs               |
    |------------|----------------------|
    | log_height | L, M h of Lemma 9    |
    | overlap    | rho = E_nn'          |
    | result     | beta_nn' / iota_n    |
    """
    x = np.asarray(log_height, float) * np.asarray(overlap, float)
    return (np.exp(x) + exprel(x) - 1) / n_vocab


def late_plain_coupling(overlap: ArrayLike) -> NDArray[np.float64]:
    r"""Coupling in the end, $\beta_{nn'} = -(AA^\top)_{nn'}/(AA^\top)_{nn}$ with $A = I - E'$, that
    is $E' + E'^\top - E'E'^\top$ over the own term $(AA^\top)_{nn}$: between one and two times
    Theorem 1's.

    Ours. Every wrong answer ends up held off by the same margin L, so $(I+E)A = L(I -
    \text{const})$ and $Y$ is Theorem 1's: $a_k/L = e_k - (E'_{kj})_j$ on the classes, the rest
    spread over $M \to \infty$ other tokens. The errors that lead there are $p_{nj} \propto -\dot
    a_n[j]$, so $\alpha_n - e_n = -\dot a_n/(\eta_YP(n))$ points along $a_n$, and $\gamma\beta_{nn'}
    \propto -a_{n'}\cdot a_n$: the form above off the diagonal, where Theorem 1 has E'. Domain:
    $\rho L$ well above $\ln(M/K)$; $E'_{nn'} \ge 0$ for all pairs (else that wrong answer is not
    held at the margin).

    | ours    | theirs            | axes         |
    |---------|-------------------|--------------|
    | overlap | E                 | class, class |
    | result  | beta_nn' / iota_n | class, class |
    """
    coupling = class_coupling(overlap)
    a = np.eye(len(coupling)) - coupling  # = (I + E)^-1
    product = a @ a.T
    limit = -product / np.diag(product)[:, None]
    np.fill_diagonal(limit, 0.0)
    return limit


def plain_snap_height(overlap: float, *, n_vocab: int, n_classes: int) -> float:
    r"""Where the coupling of plain descent stops growing, $L_s = \ln(M/K)/\rho$ in $L =
    \ln(M\eta_Yt/K)$.

    Ours: there $e^{\rho L} = M/K$, so the K classes have as much of the error as the M other
    tokens. Before it growth cannot slow down for good (`slowest_plain_growth`); after it the
    coupling is constant and growth goes as $\ln L$. As a time, $t_s =
    \frac{K}{M\eta_Y}(M/K)^{1/\rho}$: soon for strong overlaps, out of reach for the weak ones of
    Assumption 2.

    | ours    | theirs         |
    |---------|----------------|
    | overlap | rho = E_nn'    |
    """
    return float(
        np.log(n_vocab / n_classes)
        / checked_number("overlap", overlap, low=0.0, high=1.0, open_low=True)
    )
