r"""Which tokens attention moves to first: from counts alone, for any text, with finite and
dependent contexts. Ours.

At Y = Z = 0 attention is still: it reads the decoder, and the decoder is empty. So the decoder
moves first, in a straight line $Y = \eta_Y t D$, and attention feels a force that grows with it,
$\dot Z = \eta_Y\eta_Z t\,F$. D and F are averages over the windows of a text, which one pass
computes. For a window with normalised counts f (its length is 1), query q and next token n:

$$D = \mathrm{E}[f\,(e_n - \tfrac1M)^\top], \qquad F_m = \mathrm{E}[1(q = m)\; f\circ(g - f\,(f\cdot g))], \quad g = D e_n,$$

$$z_m(t) = \eta_Y\eta_Z\left[\tfrac{t^2}{2} F_m + \tfrac{\eta_Y t^3}{3} F_m^{(2)}\right] + O(t^4), \qquad
  g^{(2)} = -\tfrac1M\left(\tfrac12 S D e_n + D D^\top f\right), \quad S = \mathrm{E}[f f^\top],$$

with $F^{(2)}$ the same average of $g^{(2)}$. ($D e_n$ is $D (e_n - 1/M)$, since rows of D sum to
zero.) The second term is what the decoder's first logits do to its error. Attention's effect on
itself comes at t^4. In steps of descent $t^2/2$ is $t(t-1)/2$, exactly.

The clock. Chances are exponentials of logits: where the largest logit $y = \eta_Y t\,\ell$ is not
small, the second term comes with a factor $(e^y - 1)/y$; $\ell$ is the mean over windows of the
largest entry of $D^\top f$. So the law is off by $\delta$ when
$\frac{2}{3}\frac{|F^{(2)}|}{|F|}\frac{e^y - 1}{\ell} = \delta$, an estimate. In text y is large
early: the decoder learns how frequent tokens are at once.

Classes with endless contexts are the special case of one window each. Then, over classes n of the
query and all $n' \ne n$, $F_{ml} = \frac{1}{K^2 M}\sum f_{nl} [(f_n\cdot f_{n'}) f_{nl} -
f_{n'l}]$: Lemma 4 with the coupling 1/M. So distinct tokens gain as $f_{nl}^2$ times a positive
drive and a single common token loses, which is Theorem 2, and leads are those of Theorem 3;
Assumption 2 is not needed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

__all__ = [
    "FirstForce",
    "early_attention_logits",
    "first_force",
    "first_force_clock",
    "window_features",
]

Array = NDArray[np.float64]
_ROWS = 4096  # windows for which a row of the vocabulary is held at once


class FirstForce(NamedTuple):
    """F and its next order (both query, token), D (token, next token), and the largest logit's
    speed, mean over windows.
    """

    force: Array
    correction: Array
    decoder_dot: Array
    logit_speed: float


def window_features(counts: sparse.csr_array) -> sparse.csr_array:
    """Counts of each window divided by their Euclidean length: what the decoder reads while
    attention is even (window, token).

    Ours.

    | ours   | theirs         | axes          |
    |--------|----------------|---------------|
    | counts | N_l, or P(l|n) | window, token |
    """
    counts = sparse.csr_array(counts, dtype=float)
    length = np.sqrt(np.bincount(_rows(counts), counts.data**2, counts.shape[0]))
    return sparse.csr_array(
        (counts.data / length[_rows(counts)], counts.indices, counts.indptr), shape=counts.shape
    )


def first_force(
    counts: sparse.csr_array,
    query: ArrayLike,
    next_token: ArrayLike,
    weight: ArrayLike | None = None,
) -> FirstForce:
    """F, its next order and D, from the counts of windows.

    Ours.

    | ours       | theirs           | axes          |
    |------------|------------------|---------------|
    | counts     | N_l, or P(l|n)   | window, token |
    | query      | q                | window        |
    | next_token | n                | window        |
    | weight     | share of windows | window        |
    """
    f, q, n = window_features(counts), np.asarray(query), np.asarray(next_token)
    n_windows, M = f.shape
    w = np.full(n_windows, 1 / n_windows) if weight is None else np.asarray(weight, float)
    following = sparse.csr_array((w, (np.arange(n_windows), n)), shape=(n_windows, M))
    D = (f.T @ following).toarray() - (f.T @ w)[:, None] / M
    S = (f.T @ (f * w[:, None])).toarray()
    at_next, row = n[_rows(f)], _rows(f)
    slowing, fastest = 0.5 * (S @ D)[f.indices, at_next], np.empty(n_windows)
    for start in range(0, n_windows, _ROWS):  # windows x vocabulary, some windows at a time
        some, own = (
            f[start : start + _ROWS],
            slice(f.indptr[start], f.indptr[min(start + _ROWS, n_windows)]),
        )
        logits = some @ D
        fastest[start : start + _ROWS] = logits.max(axis=1)
        slowing[own] += (logits @ D.T)[
            _rows(some), some.indices
        ]  # D D^T f, at the tokens of each window
    force, correction = (_pulled(f, g, q, w, row) for g in (D[f.indices, at_next], slowing))
    return FirstForce(force, -correction / M, D, float(w @ fastest))


def early_attention_logits(
    t: float,
    force: FirstForce,
    *,
    lr_decoder: float,
    lr_attention: float,
    order: int = 2,
    in_steps: bool = False,
) -> Array:
    """z after time t, or after t steps of descent (`in_steps`), to second or third order in t
    (query, token).

    Ours. In steps the second order is exact; of the third, the part with S lags by half a step.

    | ours     | theirs                            |
    |----------|-----------------------------------|
    | t        | t                                 |
    | force    | F and its next order              |
    | order    | highest power of t: 2 or 3        |
    | in_steps | t counts steps of descent         |
    """
    eta_Y, eta_Z = lr_decoder, lr_attention
    square, cube = (
        (t * (t - 1) / 2, t * (t - 1) * (2 * t - 1) / 6) if in_steps else (t**2 / 2, t**3 / 3)
    )
    first = square * force.force
    return eta_Y * eta_Z * (first + eta_Y * cube * force.correction if order == 3 else first)


def first_force_clock(
    force: FirstForce,
    *,
    lr_decoder: float,
    tolerance: float = 0.1,
    queries: ArrayLike | None = None,
) -> float:
    r"""Until when the law holds to a tolerance $\delta$, of these queries together:
    $t = \frac{1}{\eta_Y\ell}\ln(1 + \frac{3}{2}\,\delta\,\ell\,\frac{|F|}{|F^{(2)}|})$.

    Ours. The rate of attention does not enter: the law ends when the decoder's logits have left
    zero.

    | ours      | theirs                 | axes  |
    |-----------|------------------------|-------|
    | force     | F and its next order   |       |
    | tolerance | delta                  |       |
    | queries   | m; None for all tokens | query |
    """
    rows = slice(None) if queries is None else np.asarray(queries)
    first, second = (np.linalg.norm(part[rows]) for part in (force.force, force.correction))
    if second == 0 or force.logit_speed <= 0:
        return np.inf
    return float(
        np.log1p(1.5 * tolerance * force.logit_speed * first / second)
        / (lr_decoder * force.logit_speed)
    )


def _rows(f: sparse.csr_array) -> NDArray[np.intp]:
    """The window of each entry."""
    return np.repeat(np.arange(f.shape[0]), np.diff(f.indptr))


def _pulled(
    f: sparse.csr_array, g: Array, query: NDArray, weight: Array, row: NDArray[np.intp]
) -> Array:
    """Average of f o (g - f (f . g)) over the windows of each query, g given at the entries (query,
    token).
    """
    n_windows, M = f.shape
    along = np.bincount(row, f.data * g, n_windows)
    pull = weight[row] * f.data * (g - f.data * along[row])
    return np.asarray(np.bincount(query[row] * M + f.indices, pull, M * M), float).reshape(M, M)
