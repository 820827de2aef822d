r"""The data in closed form: how a chain forgets where it began, and what that leaves in a context
of finite length.

Sequences start at any token alike. Of long contexts of any chain the first order in 1/length is
known: $f-\pi$, the token frequencies off their law, has mean and covariance of this order, and so
has what they do to the gradient.

| ours        | theirs                           | axes           |
|-------------|----------------------------------|----------------|
| steps       | t                                |                |
| n_context   | s, the length of the context     |                |
| frequencies | f, of tokens in contexts         | context, token |
| last_token  | i                                | context        |
| moves       | x, of frequencies                | context, token |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from ...errors import InputError, checked_count
from .laws import lazy_law, positive, stationary_chain

__all__ = [
    "context_gradients",
    "frequency_covariance",
    "frequency_excess",
    "frequency_spread",
    "gradient_bias",
    "gradient_slope",
    "last_token_law",
    "lazy_power",
]

_TINY = 1e-30  # of a complex step: its square is far below rounding
_SHORT = 1e-4  # of a real step, as a share of the rarest token


def lazy_power(steps: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""$P^t = 1\pi^\top + \lambda^t(I-1\pi^\top)$, exactly. [chen2026, eq. 25] with $Q^t =
    \lambda^t(I-1\pi^\top)$.
    """
    pi = lazy_law(stationary, stay)
    return pi + stay ** checked_count("steps", steps, low=0) * (np.eye(len(pi)) - pi)


def frequency_spread(n_context: int, *, stationary: ArrayLike, stay: float) -> float:
    r"""Root mean square of $|f-\pi|$, f the token frequencies in s tokens from a uniform first one.
    [derived, finite contexts].

    $E|f-\pi|^2 = s^{-2}\sum_t(1-2\pi\cdot\mu_t+|\pi|^2)(1+2\sum_{k=1}^{s-t}\lambda^k)$ with $\mu_t$
    the law of token t = 1, ..., s: what a token says of a later one shrinks by $\lambda$ in each
    step.
    """
    pi, n_context = lazy_law(stationary, stay), checked_count("n_context", n_context)
    laws = np.array([last_token_law(t, stationary=pi, stay=stay) for t in range(1, n_context + 1)])
    echoes = np.cumsum(stay ** np.arange(n_context))[::-1]
    return float(np.sqrt(np.sum((1 - 2 * laws @ pi + pi @ pi) * (2 * echoes - 1))) / n_context)


def last_token_law(n_context: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""Law of the last of s tokens from a uniform first one, $\pi + \lambda^{s-1}(1/d-\pi)$.
    [derived, finite contexts].
    """
    pi = lazy_law(stationary, stay)
    return pi + stay ** (checked_count("n_context", n_context) - 1) * (1 / len(pi) - pi)


def frequency_covariance(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""$C = \lim s\,E(f-\pi)(f-\pi)^\top = DZ + Z^\top D - D - \pi\pi^\top$, $D =
    \mathrm{diag}(\pi)$ and $Z = (I-P+1\pi^\top)^{-1}$. Of the lazy chain it is
    $\frac{1+\lambda}{1-\lambda}\mathrm{Var}(\pi)$. [derived, finite contexts].
    """
    pi, P = stationary_chain(stationary, transition)
    echoes = pi[:, None] * _echoes(pi, P)
    return echoes + echoes.T - np.diag(pi) - np.outer(pi, pi)


def frequency_excess(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""$m_i = \lim s\,E(f-\pi \mid \text{last token } i)$: visits shortly before it, by the chain
    run backwards, and after the uniform first token. [derived, finite contexts]. Axes: last token,
    token.
    """
    pi, P = stationary_chain(stationary, transition)
    backwards = P.T * pi / pi[:, None]
    return (_echoes(pi, backwards) - pi) + (_echoes(pi, P).mean(axis=0) - pi)


def _echoes(pi: NDArray[np.float64], P: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""$\sum_t(P^t-1\pi^\top) + 1\pi^\top$, the fundamental matrix."""
    if np.linalg.matrix_rank(np.eye(len(pi)) - P) < len(pi) - 1:
        raise InputError(
            "`transition` must lead from every token to every other: otherwise frequencies depend on the start of the chain."
        )
    return np.asarray(np.linalg.inv(np.eye(len(pi)) - P + pi))


def context_gradients(
    decoder: NDArray[np.float64],
    attention_logits: NDArray[np.float64],
    *,
    frequencies: ArrayLike,
    last_token: ArrayLike,
    transition: ArrayLike,
) -> NDArray[np.float64]:
    r"""Gradients of the loss in M and $\Phi$ of single contexts, next tokens averaged:
    $A^\top(p-P_i)$ and, in row i only, $(p-P_i)M^\top\mathrm{Var}(A)$ with $A_j \propto
    f_je^{\Phi_{ij}}$, $p = \mathrm{softmax}(AM)$. [chen2026, eqs. 33 to 35].

    Axes: context, M or $\Phi$, token, token. Frequencies may be complex, for derivatives.
    """
    f, i, P = np.asarray(frequencies), np.asarray(last_token), np.asarray(transition, float)
    if not np.shape(decoder) == np.shape(attention_logits) == P.shape == (f.shape[-1],) * 2:
        raise InputError(
            f"`decoder`, `attention_logits` and `transition` must have a row and a column for each of the {f.shape[-1]} tokens; "
            f"got shapes {np.shape(decoder)}, {np.shape(attention_logits)} and {P.shape}."
        )
    weight = f * np.exp(attention_logits[i])
    A = weight / weight.sum(axis=1, keepdims=True)
    error = softmax(A @ decoder, axis=1) - P[i]
    value = error @ decoder.T
    found = np.zeros((len(f), 2, *decoder.shape), A.dtype)
    found[:, 0] = A[:, :, None] * error[:, None, :]
    found[np.arange(len(f)), 1, i] = A * (value - np.sum(A * value, axis=1, keepdims=True))
    return found


def gradient_slope(
    decoder: NDArray[np.float64],
    attention_logits: NDArray[np.float64],
    moves: ArrayLike,
    *,
    last_token: ArrayLike,
    stationary: ArrayLike,
    transition: ArrayLike,
) -> NDArray[np.float64]:
    r"""$\sum_jx_j\,\partial g_i/\partial f_j$ of `context_gradients` at $f = \pi$, for moves x of
    the frequencies after last tokens i, by complex steps. [derived, rate of the population limit].
    Axes: as there.
    """
    moved = positive(stationary) + 1j * _TINY * np.asarray(moves)
    found = context_gradients(
        decoder, attention_logits, frequencies=moved, last_token=last_token, transition=transition
    )
    return found.imag / _TINY


def gradient_bias(
    decoder: NDArray[np.float64],
    attention_logits: NDArray[np.float64],
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
) -> NDArray[np.float64]:
    r"""How far contexts of length s keep the expected gradient from its limit,

    $\lim s\,(E\nabla L_s - \nabla L) = \sum_i\pi_i\Bigl(m_i\cdot\frac{\partial g_i}{\partial f} +
    \frac12C:\frac{\partial^2g_i}{\partial f^2}\Bigr)$ with `frequency_excess` m and
    `frequency_covariance` $C$.

    [derived, rate of the population limit]. Axes: M or $\Phi$, token, token.
    """
    pi, law = positive(stationary), {"stationary": stationary, "transition": transition}
    every = np.arange(len(pi))
    slopes = gradient_slope(
        decoder, attention_logits, frequency_excess(**law), last_token=every, **law
    )
    found = np.tensordot(pi, slopes, 1)
    variances, modes = np.linalg.eigh(frequency_covariance(**law))
    for variance, mode in zip(variances, modes.T, strict=True):
        step = _SHORT * pi.min() / np.abs(mode).max()

        def along(at: float, mode: NDArray[np.float64] = mode) -> NDArray[np.float64]:
            moved = np.tile(pi + (at + 1j * _TINY) * mode, (len(pi), 1))
            one = context_gradients(
                decoder,
                attention_logits,
                frequencies=moved,
                last_token=every,
                transition=transition,
            )
            return np.tensordot(pi, one.imag / _TINY, 1)

        found += max(variance, 0.0) * (along(step) - along(-step)) / (4 * step)
    return found
