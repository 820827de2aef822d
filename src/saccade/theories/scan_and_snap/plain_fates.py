r"""Who rises and who falls under plain descent, if classes are not alike. Ours.

Theorem 2 says that distinct tokens rise. Plain descent obeys it while attention is slow. Fast
attention is held back by the decoder's memory (plain_growth.py): a logit can lead its own past by
only so much, and how much is set for each *class*. If common tokens fall because another class
pushes them, a class's distinct features grow with no help from their logits; the memory then pulls
those logits down, the frequent ones first.

For small logits this is linear. With the decoder's height L as clock and $z - \langle z\rangle$ the
lead of z over its mean over L,

$\frac{dz}{dL} = \frac{\eta_Z}{\eta_Y} L\,[b - C (z - \langle z\rangle)],\quad
C = \sum_n (\mathrm{diag} f_n^2 - f_n^2 f_n^{2\top}),\quad
b = \frac1M\sum_{n\ne k} f_n\circ(f_n E_{nk} - f_k)$,

since $\langle f_n\rangle/f_n - 1$ is minus the lead of $\ln f_n$, and classes couple by 1/M
(pair_coupling.py). C is a sum of covariances: it is symmetric, has no negative eigenvalue, and
forgets a shift of all logits. Not here: large logits, overlaps so strong that the coupling has
grown (`plain_attention_logits` has both).
"""

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import dawsn

from ...errors import checked_count
from .features import class_overlap, normalised_feature
from .pair_coupling import plain_coupling

__all__ = ["linear_plain_logits", "resting_lead", "stable_attention_rate", "turning_height"]

_STEP = 0.005  # of the grid on which Dawson's integral is added up: the error is about this squared, over 8
_LAST = 200.0  # turning heights are looked for up to here, at equal rates


def _memory_and_push(
    token_prob: ArrayLike, coupling: ArrayLike | None = None
) -> tuple[NDArray, NDArray]:
    """C (token, token), and M b (token); all pairs couple by 1/M if nothing is said of them."""
    f = normalised_feature(np.asarray(token_prob, float))
    beta = np.ones((len(f), len(f))) if coupling is None else np.array(coupling, float)
    np.fill_diagonal(beta, 0.0)
    square, others = f**2, beta @ f
    overlap = np.sum(f * others, axis=1, keepdims=True)
    return np.diag(square.sum(axis=0)) - square.T @ square, np.sum(
        square * overlap - f * others, axis=0
    )


def resting_lead(token_prob: ArrayLike, coupling: ArrayLike | None = None) -> NDArray[np.float64]:
    r"""Lead $M (z - \langle z\rangle)$ at which fast attention rests, $C^{+} M b$ (token). Its sign
    is the fate of the token while logits are small and $\rho L$ is at most about 1 (or with the
    coupling of the time asked about); not beyond.

    `coupling` (class, class) is $M\beta_{nk}/\iota_n$, for instance from `plain_coupling`; it
    starts at 1, which is the default. Ours. All distinct tokens of a class have the same. If two
    classes share all their common tokens in one proportion, that is $\rho(\frac{1}{c_n} -
    \frac1N\sum_k\frac{N_k}{c_k})$, with $c_n$ the common tokens' share of $|f_n|^2$, $N_k$ the
    number of distinct tokens of class k and N that of all tokens. In classes alike it is positive.
    Domain: `token_prob` over the tokens of one query's classes; every two of them overlap, weakly.

    | ours   | theirs              | axes  |
    |--------|---------------------|-------|
    | result | M (z - mean of z)   | token |
    """
    C, b = _memory_and_push(token_prob, coupling)
    return np.linalg.pinv(C, rcond=1e-10) @ b


def _added_up(s: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""$\varphi(s) = \int_0^s\sqrt2\,D(u/\sqrt2)\,du$, D Dawson's integral: $s^2/2$ at first, $\ln
    s$ later.
    """
    grid = np.arange(0.0, max(s.max(), 1.0) + 2 * _STEP, _STEP)
    middle = np.sqrt(2) * dawsn((grid[:-1] + _STEP / 2) / np.sqrt(2))
    total = np.append(0.0, np.cumsum(middle) * _STEP)
    return np.interp(s, grid, total)


def linear_plain_logits(
    log_height: ArrayLike,
    *,
    token_prob: ArrayLike,
    n_vocab: int,
    lr_decoder: float,
    lr_attention: float,
) -> NDArray[np.float64]:
    r"""Logits from zero while they are small (time, token), $z = \sum_i v_i\frac{v_i\cdot
    b}{\kappa_i} \varphi(\sqrt{\kappa_i\eta_Z/\eta_Y}\,L)$, with $\kappa_i, v_i$ the eigenvalues and
    eigenvectors of C, $\varphi(s) = \int_0^s\sqrt2\,D(u/\sqrt2)\,du$ and D Dawson's integral.

    Ours. Along $v_i$ the lead y obeys $(Ly)' = -r\kappa L(Ly) + rL^2b$, $r = \eta_Z/\eta_Y$, so $y
    = \frac{b}{\kappa}(1 - \frac{\sqrt2}{s}D(\frac{s}{\sqrt2}))$, $s = \sqrt{r\kappa}L$; and $z' =
    rL(b-\kappa y)$. A slow mode still goes where it is pushed, $z = rbL^2/2$ (Theorem 2); a fast
    one where its memory lets it, $z \approx\frac{b}{\kappa}\ln s$. Domain: small logits, $\rho L$
    well below 1: the coupling is taken as 1/M, and at $\rho L = 1$, where it is 3.4/M
    (`early_plain_coupling`), logits are 2.5 times as large. Their signs, and where they change,
    suffer less.

    | ours       | theirs            | axes |
    |------------|-------------------|------|
    | log_height | L, M h of Lemma 9 | time |
    """
    C, b = _memory_and_push(token_prob)
    kappa, v = np.linalg.eigh(C)
    kept = kappa > 1e-10
    s = (
        np.sqrt(kappa[kept] * lr_attention / lr_decoder)
        * np.atleast_1d(np.asarray(log_height, float))[:, None]
    )
    return (_added_up(s) * (v.T @ b)[kept] / kappa[kept]) @ v[:, kept].T / n_vocab


def turning_height(
    token_prob: ArrayLike, token: int, *, lr_decoder: float, lr_attention: float
) -> float:
    r"""Height L at which a token that rose at first is back where it started, and falls on; NaN if
    it never is.

    Ours: the zero of `linear_plain_logits`. It depends on L and the rates through
    $L\sqrt{\eta_Z/\eta_Y}$ alone, so that $L^* \propto \sqrt{\eta_Y/\eta_Z}$ and $t^* =
    \frac{K}{M\eta_Y}e^{L^*}$. At a given time all ratios $\eta_Y/\eta_Z$ below $(L/L^*_1)^2$ have
    broken Theorem 2 for this token, $L^*_1$ being the height at equal rates.

    | ours   | theirs            |
    |--------|-------------------|
    | token  | l                 |
    | result | L, M h of Lemma 9 |
    """

    def logit(height: ArrayLike) -> NDArray[np.float64]:
        return linear_plain_logits(
            height, token_prob=token_prob, n_vocab=1, lr_decoder=1.0, lr_attention=1.0
        )[:, token]

    checked_count("token", token, low=0, high=np.shape(token_prob)[1] - 1)
    heights = np.linspace(0.1, _LAST, 400)
    fallen = np.flatnonzero((logit(heights)[:-1] > 0) & (logit(heights)[1:] <= 0))
    if not len(fallen):
        return np.nan
    at_equal_rates = scipy.optimize.brentq(
        lambda height: float(logit(height)[0]), heights[fallen[0]], heights[fallen[0] + 1]
    )
    return float(at_equal_rates * np.sqrt(lr_decoder / lr_attention))


def stable_attention_rate(token_prob: ArrayLike, class_weight: ArrayLike, *, n_vocab: int) -> float:
    r"""Attention rate above which single steps overshoot, $2/\max_t\lambda$, $\lambda$ the largest
    eigenvalue of $\sum_nP(n)\,\gamma\iota_n(t)\,(\mathrm{diag}f_n^2 - f_n^2f_n^{2\top})$.

    Ours. That matrix is how fast memory pulls logits back, per step and unit of $\eta_Z$; a step of
    descent overshoots by more than it corrects if it exceeds 2. The decoder's rate only stretches
    time, so the ratio of the rates does not matter. Domain: features at rest, no noise. A safe
    bound: crossing the limit for a few steps does no harm yet, and on Syn-Medium SGD loses the scan
    between 2.3 and 2.75 times the limit.

    | ours   | theirs |
    |--------|--------|
    | result | eta_Z  |
    """
    f, weight = normalised_feature(np.asarray(token_prob, float)), np.asarray(class_weight, float)
    spread = np.array([np.diag(row) - np.outer(row, row) for row in f**2])
    times = np.geomspace(0.1, 1e4, 300)
    sent = plain_coupling(
        times, overlap=class_overlap(f), class_weight=weight, n_vocab=n_vocab, lr_decoder=1.0
    ).own
    return float(2 / np.linalg.eigvalsh(np.einsum("tn,nlm->tlm", sent * weight, spread)).max())
