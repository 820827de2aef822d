"""Focus: the theory's linear flow against the flow, both signs, and refusals."""

from __future__ import annotations

import numpy as np

import saccade
from saccade.experiments.focus_and_dilution import stage_fits
from saccade.experiments.focus_and_dilution.focus import RANDOM, chains_of_both_signs, focus
from saccade.lab.claim import HOLDS, UNMET
from saccade.theories import focus_and_dilution as theory


def test_query_and_key_follow_the_linear_flow_of_the_theory_from_the_unigram_point():
    chain = saccade.MarkovChain.zipf(6, 0.5)
    c, start = stage_fits.focus_rate(chain), stage_fits.near_unigram(chain, 1e-5, seed=3)
    run = saccade.flow(chain, t1=4 / c, n_times=20, start=start).isel(seed=0)
    linear = theory.linear_attention(
        run.time.values, start.query, start.key, direction=np.eye(8)[0], rate=c
    )
    size = np.abs(linear.query[-1]).max()
    np.testing.assert_allclose(run.query_matrix.values, linear.query, rtol=0, atol=1e-5 * size)


def test_lazy_chains_have_the_sign_of_their_stay_and_text_turns_away():
    for name, chain in chains_of_both_signs((-0.07, 0.1), 0).items():
        if "stay" in name:
            assert np.sign(stage_fits.focus_rate(chain)) == np.sign(float(name.split()[-1])), name
        if name.startswith("text"):
            assert stage_fits.focus_rate(chain) < 0, name


def test_attention_as_fast_as_condensation_decides_nothing_from_a_random_start():
    small = {"zipf_stays": (0.3,), "n_random": 1, "laws": ("paper",), "stays": (0.3,), "seeds": 1}
    fast = focus.run(focus.settings(**small, random_starts=("text, characters",)))
    verdicts = {
        start: {claim.verdict for claim in fast.claims if claim.case.get("start") == start}
        for start in ("unigram point", RANDOM)
    }
    assert verdicts == {"unigram point": {HOLDS}, RANDOM: {UNMET}}
