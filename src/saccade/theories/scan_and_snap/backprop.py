"""What the decoder sends back to attention: g = Y (e_n - alpha_n) as a combination of the class
features (Theorem 1).

Learning class n pushes its own feature up and every overlapping feature down; that push, seen
through the overlaps, is the drive xi_n that feeds distinct tokens. It holds for the *modified*
gradient (eq. 26), gradient descent on W = F^T Y; plain descent on Y couples classes 7 to 100 times
less (plain_descent.py). Not here: what attention does with it (attention.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

__all__ = [
    "BackpropCoefficients",
    "backprop_coefficients",
    "class_drive",
    "drive_from_coupling",
    "equal_overlap_coupling",
    "equal_overlap_eigenvalues",
    "modified_decoder_dot",
    "plain_decoder_dot",
]


class BackpropCoefficients(NamedTuple):
    """g_n / gamma = own_n f_n - sum over n' of other_nn' f_n'; the diagonal of `other` is zero.
    Theirs: iota, beta.
    """

    own: NDArray[np.float64]
    other: NDArray[np.float64]


def plain_decoder_dot(
    decoder: ArrayLike, feature: ArrayLike, *, label: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""Gradient descent on the decoder, $\dot Y = \eta_Y f_n(e_n-\alpha_n)^\top$,
    $\alpha_n = \mathrm{softmax}(Y^\top f_n)$.

    [tian2023, eq. 7]. The label of class n is token n.

    | ours       | theirs         | axes         |
    |------------|----------------|--------------|
    | label      | n              |              |
    """
    Y, f = np.asarray(decoder, float), np.asarray(feature, float)
    error = np.eye(len(Y))[label] - softmax(Y.T @ f[label])
    return lr_decoder * np.outer(f[label], error)


def modified_decoder_dot(
    decoder: ArrayLike, feature: ArrayLike, *, label: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""Gradient descent in the coordinates $W = F^\top Y$: $\dot Y = \eta_Y(f_n -
    FE'e_n)(e_n-\alpha_n)^\top = \eta_Y F(F^\top F)^{-1}e_n(e_n-\alpha_n)^\top$.

    [tian2023, Lemma 3, eq. 26]. Only row n of W moves, so classes learn independently: Lemmas 5 to
    12 and Theorem 1 are about this descent. Domain: constant, linearly independent features.

    | ours       | theirs         | axes         |
    |------------|----------------|--------------|
    | label      | n              |              |
    """
    Y, f = np.asarray(decoder, float), np.asarray(feature, float)
    error = np.eye(len(Y))[label] - softmax(Y.T @ f[label])
    dual = np.linalg.solve(f @ f.T, f)[label]
    return lr_decoder * np.outer(dual, error)


def backprop_coefficients(
    coupling: ArrayLike,
    *,
    n_vocab: int,
    height_deviation: ArrayLike = 0.0,
    error_deviation: ArrayLike = 0.0,
    as_printed: bool = False,
) -> BackpropCoefficients:
    r"""The coefficients of $g_n = Y(e_n-\alpha_n) = \gamma(\iota_n f_n - \sum_{n'\ne
    n}\beta_{nn'}f_{n'})$.

    $\iota_n = (1+\sigma_n)[q_1(1+\theta_n)(1-E'_{nn}) - q_0\sum_{k\ne n}(1+\theta_k)E'_{kn}]$,
    $\beta_{nn'} = (1+\sigma_n)[q_1(1+\theta_n)E'_{nn'} + q_0(\sum_{k\ne n}(1+\theta_k)E'_{kn'} -
    (1+\theta_{n'}))]$, $q_1 = 1 + 1/(M-1)$, $q_0 = -M/(M-1)^2$; to leading order $1 - E'_{nn}$ and
    $E'_{nn'}$.

    [tian2023, Theorem 1, eq. 88]: exact for the modified gradient with Y(0) = 0. With `as_printed`,
    the paper's $+(1+\theta_{n'})$ in $\beta$: too small by $2|q_0|(1+\theta_{n'}) \approx 2/M$
    (.045247 for .046248 at M = 2000, K = 4, overlap .05).

    | ours             | theirs               | axes         |
    |------------------|----------------------|--------------|
    | height_deviation | theta                | class        |
    | error_deviation  | sigma                | class        |
    | result.own       | iota                 | class        |
    | result.other     | beta                 | class, class |
    """
    E, M = np.asarray(coupling, float), n_vocab
    scale, sigma = (
        np.broadcast_to(np.asarray(x, float), (len(E),))
        for x in (height_deviation, error_deviation)
    )
    scale = 1 + scale
    q_1, q_0 = M / (M - 1), -M / (M - 1) ** 2
    others = scale @ E - scale[:, None] * E  # [n, n'] = sum over k != n of (1 + theta_k) E'_kn'
    sign = 1 if as_printed else -1
    iota = q_1 * scale * (1 - np.diag(E)) - q_0 * np.diag(others)
    beta = q_1 * scale[:, None] * E + q_0 * (others + sign * scale)
    np.fill_diagonal(beta, 0.0)
    return BackpropCoefficients(own=(1 + sigma) * iota, other=(1 + sigma)[:, None] * beta)


def class_drive(overlap: ArrayLike, other: ArrayLike, *, speed: float = 1.0) -> NDArray[np.float64]:
    r"""How hard a class drives its distinct tokens, $\xi_n = \gamma\sum_{n'\ne
    n}\beta_{nn'}\,f_n\cdot f_{n'}$.

    [tian2023, Theorem 1(a)]: positive under Assumption 2, although single $\beta_{nn'}$ may be
    negative; 0 for an isolated class.

    | ours    | theirs                            | axes         |
    |---------|-----------------------------------|--------------|
    | other   | beta                              | class, class |
    """
    return speed * np.sum(np.asarray(other, float) * np.asarray(overlap, float), axis=1)


def drive_from_coupling(coupling: ArrayLike, *, speed: float = 1.0) -> NDArray[np.float64]:
    r"""The drive to leading order,
    $\xi_n \approx -\gamma E'_{nn} = \gamma\sum_k \lambda_k^2 u_{nk}^2/(1+\lambda_k) \ge 0$.

    [tian2023, Theorem 1(a)], from $\sum_k E_{nk}E'_{nk} = -E'_{nn}$ with $\lambda_k, u_k$ the
    eigenpairs of E; off by at most $3/M$ in each $\beta$.
    """
    return -speed * np.diag(np.asarray(coupling, float))


def equal_overlap_eigenvalues(overlap: float, *, n_classes: int) -> NDArray[np.float64]:
    r"""Eigenvalues of E when every two classes overlap by $\rho$: $(K-1)\rho$ once, then $-\rho$, K
    - 1 times.

    Ours. Assumption 2 then reads $6/\sqrt M \le \rho < 1/(K(K-1))$, which needs $M > 36K^2(K-1)^2$.
    """
    return np.append((n_classes - 1) * overlap, np.full(n_classes - 1, -overlap))


def equal_overlap_coupling(overlap: float, *, n_classes: int) -> NDArray[np.float64]:
    r"""E' when every two classes overlap by $\rho$: $E'_{nn'} = \rho/D$, $E'_{nn} =
    -(K-1)\rho^2/D$, $D = (1-\rho)(1+(K-1)\rho)$.

    Ours. The drive is then $\xi_n = \gamma(K-1)\rho^2/D$. Domain: $0 \le \rho < 1$.
    """
    rho, K = overlap, n_classes
    coupling = np.full((K, K), rho)
    np.fill_diagonal(coupling, -(K - 1) * rho**2)
    return coupling / ((1 - rho) * (1 + (K - 1) * rho))
