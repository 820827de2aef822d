"""Stage I: the linear flow at the origin against the velocities it linearises, and against the flow
itself.
"""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    alignment,
    centred_stationary,
    condensation_drive,
    condensation_rate,
    condensation_slope,
    condensation_time,
    condensed_direction,
    embedding_norm,
    linear_weights,
)

from .chains import CHAINS, PAPER_LAW, ZIPF, lazy, random_weights
from .numeric import weight_flow

chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())


@pytest.mark.parametrize(("law", "rate"), [(PAPER_LAW, 0.45950), (ZIPF, 0.14256)])
def test_rate_has_the_value_of_an_independent_calculation(law, rate):
    assert condensation_rate(stationary=law) == pytest.approx(rate, abs=5e-6)
    assert condensation_slope(stationary=law, lr_decoder=2.0) == pytest.approx(
        1 / (2 * rate), rel=4e-5
    )


@chains
@pytest.mark.parametrize("lr_decoder", [1.0, 0.3])
def test_linear_weights_solve_the_linear_flow(chain, lr_decoder):
    embedding_0, _, _, projection_0 = random_weights(n_vocab=len(chain["stationary"]))
    t, step = np.array([0.0, 1.3]), 1e-4
    settings = {"stationary": chain["stationary"], "lr_decoder": lr_decoder}
    now, ahead, behind = (
        linear_weights(t + shift, embedding_0, projection_0, **settings)
        for shift in (0, step, -step)
    )
    drive = lr_decoder * condensation_drive(stationary=chain["stationary"])
    np.testing.assert_allclose(
        (ahead.embedding - behind.embedding) / (2 * step), drive @ now.projection.mT, atol=1e-8
    )
    np.testing.assert_allclose(
        (ahead.projection - behind.projection) / (2 * step), now.embedding.mT @ drive, atol=1e-8
    )
    np.testing.assert_allclose(now.embedding[0], embedding_0, rtol=1e-14)
    np.testing.assert_allclose(now.projection[0], projection_0, rtol=1e-14)


def test_embedding_and_projection_condense_to_the_predicted_directions():
    weights = random_weights(n_vocab=6, scale=1e-4)
    alpha = condensed_direction(weights[0], weights[3], stationary=ZIPF)
    time = condensation_time(weights[0], weights[3], stationary=ZIPF)
    W0, _, _, W1 = weight_flow(weights, [time], **lazy(ZIPF, 0.5))[0]
    assert alignment(W0, np.outer(ZIPF, alpha)) > 0.9999
    assert (
        alignment(W1, np.outer(alpha, centred_stationary(stationary=ZIPF))) > 0.99
    )  # already bending to the centred log


def test_stage_takes_one_over_the_rate_longer_per_e_fold_of_a_smaller_start():
    scales, arrivals, predicted = [1e-3, 1e-5], [], []
    for scale in scales:
        weights = random_weights(n_vocab=6, scale=scale)
        predicted.append(condensation_time(weights[0], weights[3], stationary=ZIPF))
        times = np.linspace(0, predicted[-1] + 30, 3000)
        size = [np.linalg.norm(w[0]) for w in weight_flow(weights, times, **lazy(ZIPF, 0.5))]
        arrivals.append(np.interp(embedding_norm(stationary=ZIPF) / 2, size, times))
    slope = (arrivals[1] - arrivals[0]) / np.log(scales[0] / scales[1])
    assert slope == pytest.approx(condensation_slope(stationary=ZIPF), rel=0.02)
    delays = np.subtract(arrivals, predicted)
    assert delays[0] == pytest.approx(delays[1], abs=0.02 * condensation_slope(stationary=ZIPF))
    assert delays[1] > 0
