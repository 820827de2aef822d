"""The cycle on text: measures against the model and finite differences, rates against the chain,
and claims that can fail.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import sparse
from scipy.special import log_softmax

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import saccade  # noqa: E402
from saccade.experiments.real_text import text_cycle  # noqa: E402
from saccade.experiments.real_text import text_cycle_runs as runs  # noqa: E402
from saccade.experiments.real_text.token_scores import mean_attention  # noqa: E402
from saccade.lab.case import Case  # noqa: E402
from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE  # noqa: E402
from saccade.models.transformer import Transformer, TransformerConfig  # noqa: E402
from saccade.theories import focus_and_dilution as theory  # noqa: E402
from saccade.theories.focus_and_dilution.statements import SIGN_RULE  # noqa: E402


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return Transformer(TransformerConfig.focus_and_dilution(17, d_model=5, init_scale=0.7))


def random_chain(n, seed=0):
    """A law and the shares of pairs that have it on both sides."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n, 0.5), size=n) + 0.01
    table /= table.sum(axis=1, keepdims=True)
    law = np.linalg.matrix_power(table, 500)[0]
    return law, law[:, None] * table


def test_scores_on_a_probe_give_the_models_own_attention(model):
    probe = np.array([2, 11, 7])
    ids = torch.tensor([[11, 2, 7], [2, 7, 11], [2, 11, 7]])  # the last token of each is the query
    own = model.attention_of(ids, last_only=True)[:, 0, 0].double().numpy()
    found = runs.measures(
        model,
        frequencies=np.full(17, 1 / 17),
        pairs=sparse.eye_array(17) / 17,
        queries=np.array([0]),
        probe=probe,
        windows=ids.numpy(),
    )
    rows = {int(query): row for query, row in zip(probe, found["probe_attention"][1], strict=True)}
    for row, sequence in zip(own, ids.tolist(), strict=True):
        for weight, key in zip(row, sequence, strict=True):
            assert rows[sequence[-1]][list(probe).index(key)] == pytest.approx(weight, rel=1e-4)


def test_endless_attention_is_that_of_a_context_with_the_texts_shares(model):
    counts = np.array([3, 2, 1, 4] + [0] * 13)
    ids = np.repeat(np.arange(17), counts)  # the query, token 3, is the last
    by_position = (
        model.attention_of(torch.tensor(ids)[None], last_only=True)[0, 0, 0].double().numpy()
    )
    scores = runs.sought(model, [3]) @ model.embedding.weight.detach().double().T
    found = mean_attention(scores.numpy(), counts / counts.sum())[0]
    np.testing.assert_allclose(
        found, np.bincount(ids, by_position, minlength=17), rtol=1e-4, atol=1e-9
    )


def test_the_drive_is_the_slope_of_the_loss_in_the_size_of_attention():
    law, pairs = random_chain(7)
    gamma, beta = np.random.default_rng(1).normal(size=(2, 7))

    def loss(kappa):
        attention = mean_attention(kappa * np.outer(gamma, gamma), law)
        return float(-(pairs * log_softmax(np.outer(attention @ gamma, beta), axis=1)).sum())

    slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
    found = runs.drive(gamma, beta, frequencies=law, pairs=sparse.csr_array(pairs))
    assert found == pytest.approx(-slope, rel=1e-6)


def test_the_top_direction_is_that_of_the_whole_decomposition():
    matrix = np.random.default_rng(0).normal(size=(19, 5))
    values, direction = runs.top_direction(torch.from_numpy(matrix))
    _, expected, right = np.linalg.svd(matrix)
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert abs(direction.numpy() @ right[0]) == pytest.approx(1)


def test_ranks_go_from_the_most_frequent_token_to_the_rarest():
    assert runs.spread_ranks(100, 3).tolist() == [0, 9, 99]


def test_the_first_move_is_the_first_look_at_which_any_query_moved():
    tilt = np.zeros((11, 3))
    assert text_cycle.first_move(tilt) is None
    tilt[7:, 2] = -0.02
    assert text_cycle.first_move(tilt) == 7


def test_rates_of_a_text_are_those_of_its_chain():
    text = saccade.corpus("sotu", n_vocab=13)
    chain = text.chain(13)
    c, mu = text_cycle.chain_rates(text, 0.5)
    rate = theory.focus_rate(stationary=chain.stationary, transition=chain.transition)
    assert c == pytest.approx(0.5 * rate, rel=1e-9)
    assert mu == pytest.approx(theory.condensation_rate(stationary=chain.stationary), rel=1e-9)


STEPS = np.unique(np.geomspace(1, 4001, 300).round()) - 1.0


def staged():
    """A run with every stage: share 0.2, focus from 150, dilution from 1000, a second direction at
    2000, focus again from 1800.
    """
    on = np.interp(
        np.log(STEPS + 1),
        np.log([1, 60, 150, 1000, 1800, 2600, 4000]),
        [0.2, 0.2, 1, 1, 0.3, 0.7, 0.1],
    )
    ratio = np.interp(STEPS, [0, 40, 1500, 2000, 4000], [0.9, 0.03, 0.03, 0.11, 0.3])
    probe = np.full((len(STEPS), 2, 2), 0.5)
    probe[:, :, 0] = np.interp(on, [0, 0.2, 1], [0.05, 0.5, 1])[:, None]
    probe[:, :, 1] = 1 - probe[:, :, 0]
    return xr.Dataset(
        {
            "step": ("look", STEPS),
            "loss": ("look", np.full(len(STEPS), 5.0)),
            "query_norm": ("look", np.interp(STEPS, [0, 50, 150], [1, 1, 100])),
            "on_frequent": (("look", "query"), np.stack([on, on], axis=1)),
            "joint": ("look", on),
            "first": ("look", 1 / (1 + ratio**2)),
            "singular_values": (("look", "rank"), np.stack([np.ones_like(ratio), ratio], axis=1)),
            "probe_attention": (("look", "probe_query", "probe_key"), probe),
        }
    )


def test_a_run_with_every_stage_shows_them_and_one_without_does_not():
    whole = text_cycle.stages(staged(), 0.2)
    assert whole["condensation"] > 0.99
    assert whole["focus"] == whole["probe"] == whole["dilution"] == 1
    assert all(whole[stage] for stage in ("focused", "direction", "again", "itself"))
    stuck = staged()
    stuck["on_frequent"][:] = np.maximum.accumulate(stuck.on_frequent.values)
    assert text_cycle.stages(stuck, 0.2)["dilution"] == 0
    flat = staged()
    flat["singular_values"][:, 1] = 0.03
    assert not text_cycle.stages(flat, 0.2)["direction"]


def moved(*sides):
    """The sides of two starts of each chain."""
    return xr.DataArray(np.reshape(sides, (-1, 2)), dims=("size", "start"))


def judged(side, wanted):
    case = Case(registered_in=[])
    text_cycle.agreeing(case, SIGN_RULE, "side", side, wanted)
    (claim,) = case.registered_in
    return claim.verdict


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        ((-1, -1, 1, 1), HOLDS),
        ((1, 1, -1, -1), FAILS),
        ((-1, 1, 1, -1), INCONCLUSIVE),  # starts part
        ((-1, -1, 1, np.nan), HOLDS),  # runs that never moved do not count
    ],
)
def test_most_runs_must_go_to_the_wanted_side(sides, verdict):
    wanted = xr.DataArray([-1.0, 1.0], dims="size")
    assert judged(moved(*sides), wanted) == verdict


def test_up_to_a_tenth_of_the_runs_may_be_exceptions():
    for n_wrong, verdict in ((0, HOLDS), (2, HOLDS), (4, FAILS)):
        side = moved(*[-1] * n_wrong, *[1] * (20 - n_wrong))
        assert judged(side, 1.0) == verdict
