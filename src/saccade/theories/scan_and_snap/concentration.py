"""How far a finite run strays from the theory's averages: tokens in a context, draws of a class,
and what follows.

Hoeffding's inequality bounds how often anything is seen; the decoder turns that into a relative
error theta of its logits and sigma of its output error, which then multiply every coefficient of
Theorem 1. The paper's "<~" hides constants; where a bound here is in fact exact, or has a known
constant, the docstring says so. Not here: the coefficients themselves (backprop.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .clock import snap_time
from .decoder import class_directions, class_error, decoder_height, draws_to_height

__all__ = [
    "CountDeviation",
    "count_deviation",
    "decoder_from_heights",
    "draw_count_bound",
    "draw_spread",
    "error_deviation_bound",
    "frequency_bound",
    "height_deviation_bound",
    "height_ratio_bound",
    "steps_to_error",
]


class CountDeviation(NamedTuple):
    """Relative error, class by class, from drawing a class more or less often than its share."""

    height: NDArray[np.float64]
    error: NDArray[np.float64]


def frequency_bound(n_context: ArrayLike, *, failure_prob: float) -> NDArray[np.float64]:
    r"""How far one token's frequency in a context may be from its law,
    $|q_l - P(l|m,n)| \le \sqrt{\ln(2/\delta)/(2(T-1))}$.

    [tian2023, Lemma 18] (Hoeffding): fails with probability at most $\delta$ per token, and shrinks
    as $T^{-1/2}$.

    | ours         | theirs |
    |--------------|--------|
    | failure_prob | delta  |
    """
    return np.sqrt(np.log(2 / failure_prob) / (2 * np.asarray(n_context, float)))


def draw_count_bound(n_steps: ArrayLike, *, failure_prob: float) -> NDArray[np.float64]:
    r"""How far the draws of a class may be from its share,
    $|N_n - \lceil N P(n)\rceil| \le \sqrt{\tfrac N2\ln(2/\delta)} + 1$.

    [tian2023, Lemma 10] (Hoeffding): fails with probability at most $\delta$. The paper's further
    $< \sqrt{N\ln(2/\delta)}$ needs $N\ln(2/\delta) > (2+\sqrt2)^2 = 11.7$.

    | ours         | theirs            |
    |--------------|-------------------|
    | n_steps      | N (batch-1 steps) |
    | failure_prob | delta             |
    """
    return np.sqrt(np.asarray(n_steps, float) / 2 * np.log(2 / failure_prob)) + 1


def draw_spread(n_steps: ArrayLike, *, failure_prob: float) -> NDArray[np.float64]:
    r"""The spread of draws Lemmas 11 and 12 are written in, $\Delta =
    \lceil\sqrt{N\ln(1/\delta)}\rceil$.

    [tian2023, Lemma 11].

    | ours         | theirs            |
    |--------------|-------------------|
    | n_steps      | N (batch-1 steps) |
    | failure_prob | delta             |
    """
    return np.ceil(np.sqrt(np.asarray(n_steps, float) * np.log(1 / failure_prob)))


def height_deviation_bound(
    n_steps: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float, failure_prob: float
) -> NDArray[np.float64]:
    r"""How far a class's height may be from the average one, $|h(N_n) - h(\bar N)| \le h(\bar
    N)\,\Delta/\bar N$, $\bar N = \lceil N/K\rceil$.

    [tian2023, Lemma 11]. The paper has "<~"; it is exact whenever $|N_n - \bar N| \le \Delta$,
    since h is concave and h(0) = 0.

    | ours         | theirs            |
    |--------------|-------------------|
    | n_steps      | N (batch-1 steps) |
    | failure_prob | delta             |
    """
    share = np.ceil(np.asarray(n_steps, float) / n_classes)
    height = decoder_height(share, n_vocab=n_vocab, lr_decoder=lr_decoder)
    return height * draw_spread(n_steps, failure_prob=failure_prob) / share


def height_ratio_bound(
    n_steps: ArrayLike, *, n_classes: int, failure_prob: float
) -> NDArray[np.float64]:
    r"""Size of the relative logit error of every class at once,
    $|\theta_n| \lesssim \frac{K}{\sqrt N}\sqrt{\ln(K/\delta)}$.

    [tian2023, Theorem 5]. Domain: $N \gg K^2$.

    | ours         | theirs            |
    |--------------|-------------------|
    | n_steps      | N (batch-1 steps) |
    | failure_prob | delta             |
    """
    K = n_classes
    return K / np.sqrt(np.asarray(n_steps, float)) * np.sqrt(np.log(K / failure_prob))


def error_deviation_bound(
    n_steps: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float, failure_prob: float
) -> NDArray[np.float64]:
    r"""Size of the relative output error, $|\sigma| \lesssim \tfrac13\eta_Y\Delta$ before $t_0$ and
    $\Delta/\bar N$ from $t_0$ on.

    [tian2023, Lemma 12, Corollary 1]. With the constants left out by the paper: $|\ln(1+\sigma)|
    \le \frac{M}{4(M-1)}\eta_Y\Delta$ always, and $\le 2\Delta/(\bar N-\Delta)$ once $N_n \ge
    t_0/K$.

    | ours         | theirs            |
    |--------------|-------------------|
    | n_steps      | N (batch-1 steps) |
    | failure_prob | delta             |
    """
    steps = np.asarray(n_steps, float)
    spread = draw_spread(steps, failure_prob=failure_prob)
    onset = snap_time(n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder)
    return np.where(steps < onset, lr_decoder * spread / 3, spread / np.ceil(steps / n_classes))


def count_deviation(n_draws: ArrayLike, *, n_vocab: int, lr_decoder: float) -> CountDeviation:
    r"""The relative errors themselves: $\theta_n = h(N_n)/h(\bar N) - 1$ and $\sigma_n$, the same
    for $1 - \alpha_{nn}$.

    [tian2023, Theorem 5, Corollary 1]. Exact in continuous time; no bound involved. Domain: some
    class has been drawn.

    | ours              | theirs                  | axes  |
    |-------------------|-------------------------|-------|
    | n_draws           | N_n                     | class |
    | result.height     | theta_n                 | class |
    | result.error      | sigma (one per class)   | class |
    """
    counts = np.asarray(n_draws, float)
    height = decoder_height(counts, n_vocab=n_vocab, lr_decoder=lr_decoder)
    mean_height = decoder_height(np.ceil(counts.mean()), n_vocab=n_vocab, lr_decoder=lr_decoder)
    error, mean_error = (
        class_error(height, n_vocab=n_vocab),
        class_error(mean_height, n_vocab=n_vocab),
    )
    return CountDeviation(height=height / mean_height - 1, error=error / mean_error - 1)


def decoder_from_heights(feature: ArrayLike, height: ArrayLike) -> NDArray[np.float64]:
    r"""The whole decoder, $Y = F(F^\top F)^{-1}W = F(I-E')(I+\Theta)\bar W$, with rows $w_n =
    (M-1)h_n\zeta_n$.

    [tian2023, Theorem 5]. With $h_n = h^*(N_n)$ it is exact for batch-1 descent along the modified
    gradient (eq. 26); with $h_n = h(N_n)$ it is the paper's. Domain: constant, linearly independent
    features; Y(0) = 0.

    | ours    | theirs               | axes         |
    |---------|----------------------|--------------|
    | height  | h(N_n) or h*(N_n)    | class        |
    | result  | Y                    | token, token |
    """
    f = np.asarray(feature, float)
    n_classes, n_vocab = f.shape
    h = np.broadcast_to(np.asarray(height, float), (n_classes,))
    logits = (n_vocab - 1) * h[:, None] * class_directions(n_classes=n_classes, n_vocab=n_vocab)
    return f.T @ np.linalg.solve(f @ f.T, logits)


def steps_to_error(
    error: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""Steps until $\lVert e_n - \alpha_n\rVert_2 \le \epsilon$: $K$ times the draws at which
    $(1-\alpha_{nn})\sqrt{q_1} = \epsilon$.

    Exact from Lemma 6, and at most $\frac{K}{\eta_Y}(\frac1\epsilon + \ln\frac M\epsilon)$;
    [tian2023, Corollary 1] bounds it by the product, $O(\frac{K}{\epsilon\eta_Y}\ln\frac
    M\epsilon)$. Domain: $0 < \epsilon \le \sqrt{(M-1)/M}$, the error at t = 0.

    | ours       | theirs  |
    |------------|---------|
    | error      | epsilon |
    """
    M = n_vocab
    miss = np.asarray(error, float) / np.sqrt(M / (M - 1))
    height = np.log((M - 1) * (1 - miss) / miss) / M
    return n_classes * draws_to_height(height, n_vocab=M, lr_decoder=lr_decoder)
