"""Focus: chains of both signs, and starts that decide nothing."""

from __future__ import annotations

import numpy as np

from saccade.experiments.focus_and_dilution import stage_fits
from saccade.experiments.focus_and_dilution.focus import RANDOM, chains_of_both_signs, focus
from saccade.lab.claim import HOLDS, UNMET


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
