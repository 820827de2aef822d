r"""Turning points of noisy curves: how large the noise is, and which turns stand out once it is
smoothed.

A turn stands out if its prominence is at least a threshold: what a figure can show, or five
standard deviations of the noise around it, whichever is larger. Noise is told from a bending curve
by its second differences $b_i = x_{i-1} - 2x_i + x_{i+1}$. White noise of variance $\sigma^2$ has

$$\mathrm E[b_i\, b_{i+1}] = -4\sigma^2,$$

while a smooth curve bends the same way at neighbouring samples, so that the product is positive. A
curve sampled so coarsely that it turns from one sample to the next cannot be told from noise and
counts as noise; then pass a threshold of your own.

Axes: curves are (time, curve). Sampling may be uneven; windows count samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import find_peaks

# A hundredth of full attention. The least prominent turns of the flow on a six-token Zipf law, the
# first focus of its tokens 1 and 5, have .011 and .013; the turns below .01 there are wiggles that
# no figure shows.
VISIBLE = 0.01
DEVIATIONS = 5.0  # the usual "five sigma"; smoothed white noise alone reaches it in fewer than one of a hundred curves
_SMOOTHED_SHARE = 80  # a moving average takes this part of the samples: an eighth of an e-fold of time if they span ten
_NOISE_SHARE = 15  # noise comes and goes with the stages, so it is measured in windows of this part of the samples,
# but not of fewer than this, which tell the deviation to about a fifth (each product spreads by 7
# sigma^2)
_LEAST_NOISE_WINDOW = 31


class Turn(NamedTuple):
    """A maximum or minimum of one curve."""

    place: int
    value: float
    prominence: float


def local_noise(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviation of the noise around every sample (time, curve), at least 0; 0 where a
    curve is smooth or too short.
    """
    if len(curves) < 4:
        return np.zeros_like(curves)
    bend = np.diff(curves, 2, axis=0)
    window = max(_LEAST_NOISE_WINDOW, len(curves) // _NOISE_SHARE)
    product = uniform_filter1d(bend[1:] * bend[:-1], window, axis=0, mode="reflect")
    return np.pad(np.sqrt(np.maximum(-product, 0) / 4), ((1, 2), (0, 0)), mode="edge")


def smoothed(curves: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moving averages of curves whose noise could make a visible turn; the others as they are."""
    window = max(3, len(curves) // _SMOOTHED_SHARE | 1)
    noisy = DEVIATIONS * noise.max(axis=0, initial=0.0) > VISIBLE
    return np.where(noisy, uniform_filter1d(curves, window, axis=0, mode="reflect"), curves)


def thresholds(noise: NDArray[np.float64], prominence: float | None) -> NDArray[np.float64]:
    """Least prominence of a turn at every sample: the one given, or the larger of what is visible
    and what noise cannot do.
    """
    return (
        np.maximum(VISIBLE, DEVIATIONS * noise)
        if prominence is None
        else np.full_like(noise, prominence)
    )


def peaks(curve: NDArray[np.float64], threshold: NDArray[np.float64]) -> list[Turn]:
    """Local maxima of one curve whose prominence is at least the threshold at their place."""
    places, found = find_peaks(curve, prominence=0.0)
    turns = (
        Turn(int(i), float(curve[i]), float(height))
        for i, height in zip(places, found["prominences"], strict=True)
    )
    return [turn for turn in turns if turn.prominence >= threshold[turn.place]]


def dips(curve: NDArray[np.float64], threshold: NDArray[np.float64]) -> list[Turn]:
    """Local minima of one curve, likewise."""
    return [turn._replace(value=-turn.value) for turn in peaks(-curve, threshold)]
