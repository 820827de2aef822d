"""The cycle on text: what is measured against the model and finite differences, a tiny run, and
claims that can fail.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import sparse
from scipy.special import log_softmax

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.errors import InputError  # noqa: E402
from saccade.experiments.real_text import text_cycle_runs as runs  # noqa: E402
from saccade.experiments.real_text.text_cycle import EXPERIMENT, Settings  # noqa: E402
from saccade.experiments.real_text.text_cycle_stages import cycle_of  # noqa: E402
from saccade.experiments.real_text.token_scores import mean_attention  # noqa: E402
from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE, REPLICATION  # noqa: E402
from saccade.model.transformer import Transformer, TransformerConfig  # noqa: E402
from saccade.records.schema import with_settings  # noqa: E402
from saccade.theory import focus_and_dilution as theory  # noqa: E402
from tests.experiments.default_runs import record_of  # noqa: E402


@pytest.fixture(scope="module")
def tiny() -> xr.Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.processes.cores", lambda: 1
        )  # starting processes would take longer than the runs
        return record_of(
            "text-cycle",
            texts=("sotu",),
            n_vocabs=(31,),
            rates=(1e-2,),
            init_scales=(1e-2,),
            scaled=(True,),
            steps=(60,),
            probes=(("the", "of", "nonesuch"),),
            d_model=5,
            batch=7,
            context=11,
            looks=23,
            queries=3,
            seeds=2,
        )


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    return Transformer(TransformerConfig.focus_and_dilution(17, d_model=5, init_scale=0.7))


def random_chain(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A law and the shares of pairs that have it on both sides."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n, 0.5), size=n) + 0.01
    table /= table.sum(axis=1, keepdims=True)
    law = np.linalg.matrix_power(table, 500)[0]
    return law, law[:, None] * table


def test_scores_on_a_probe_give_the_models_own_attention(model: Transformer) -> None:
    probe = np.array([2, 11, 7])
    ids = torch.tensor([[11, 2, 7], [2, 7, 11], [2, 11, 7]])  # the last token of each is the query
    own = model.attention_of(ids, last_only=True)[:, 0, 0].double().numpy()
    found = runs.CycleMeasures(
        np.full(17, 1 / 17), sparse.eye_array(17) / 17, np.array([0]), probe
    )(model, 0)
    rows = {int(query): row for query, row in zip(probe, found["probe_attention"][1], strict=True)}
    for row, sequence in zip(own, ids.tolist(), strict=True):
        for weight, key in zip(row, sequence, strict=True):
            assert rows[sequence[-1]][list(probe).index(key)] == pytest.approx(weight, rel=1e-4)


def test_endless_attention_is_that_of_a_context_with_the_texts_shares(model: Transformer) -> None:
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


def test_the_drive_is_the_slope_of_the_loss_in_the_size_of_attention() -> None:
    law, pairs = random_chain(7)
    gamma, beta = np.random.default_rng(1).normal(size=(2, 7))

    def loss(kappa: float) -> float:
        attention = mean_attention(kappa * np.outer(gamma, gamma), law)
        return float(-(pairs * log_softmax(np.outer(attention @ gamma, beta), axis=1)).sum())

    slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
    found = runs.drive(gamma, beta, frequencies=law, pairs=sparse.csr_array(pairs))
    assert found == pytest.approx(-slope, rel=1e-6)


def test_at_the_unigram_point_the_drive_is_the_focus_rate() -> None:
    law, pairs = random_chain(7)
    gamma, beta = theory.unigram_point(stationary=law)
    c = theory.focus_rate(stationary=law, transition=pairs / law[:, None])
    assert runs.drive(gamma, beta, frequencies=law, pairs=sparse.csr_array(pairs)) == pytest.approx(
        c, rel=1e-9
    )


def test_logits_that_are_still_too_small_drive_attention_to_frequent_tokens_whatever_the_sign_of_c() -> (
    None
):
    law = np.array([0.6, 0.3, 0.1])
    anti = np.outer(law, law) - 0.05 * (
        np.diag(law) - np.outer(law, law)
    )  # repeats are rarer than by chance
    gamma, beta = theory.unigram_point(stationary=law)
    assert runs.drive(gamma, beta, frequencies=law, pairs=sparse.csr_array(anti)) < 0
    small = runs.drive(0.3 * gamma, 0.3 * beta, frequencies=law, pairs=sparse.csr_array(anti))
    assert small > 0


def test_the_top_direction_is_that_of_the_whole_decomposition() -> None:
    matrix = np.random.default_rng(0).normal(size=(19, 5))
    values, direction = runs.top_direction(torch.from_numpy(matrix))
    _, expected, right = np.linalg.svd(matrix)
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert abs(direction.numpy() @ right[0]) == pytest.approx(1)


def test_ranks_go_from_the_most_frequent_token_to_the_rarest() -> None:
    assert runs.spread_ranks(100, 3).tolist() == [0, 9, 99]


def test_the_first_move_is_the_first_look_at_which_any_query_moved() -> None:
    tilt = np.zeros((11, 3))
    assert runs.first_move(tilt) is None
    tilt[7:, 2] = -0.02
    assert runs.first_move(tilt) == 7


def test_a_tiny_run_has_all_its_numbers(tiny: xr.Dataset) -> None:
    run = cycle_of(tiny, "sotu")
    assert (run.step[0], run.step[-1]) == (0, 60)
    np.testing.assert_allclose(
        run.on_frequent[0], tiny.share.item(), atol=1e-4
    )  # no preference at a small start
    assert run.probe.shape[1:] == (2, 2)  # a word that the text does not have is left out
    np.testing.assert_allclose(run.probe.sum(axis=2), 1, atol=1e-9)
    assert len(EXPERIMENT.rows(tiny)) == 2 * len(run.step)
    assert EXPERIMENT.figure(tiny).axes
    assert (
        "sotu: 1 of the 3 words of the probe are not in the vocabulary: “nonesuch”."
        in EXPERIMENT.caption_of(tiny)
    )


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="entry for each"):
        EXPERIMENT.run(Settings(texts=("sotu",)))


def staged(steps: np.ndarray, seeds: int = 3) -> xr.Dataset:
    """A record made by hand that has every stage: share .2, focus from 100, dilution from 1000, a
    second direction at 2000.
    """
    on = np.interp(
        np.log(steps + 1),
        np.log([1, 60, 150, 1000, 1800, 2600, 4000]),
        [0.2, 0.2, 1, 1, 0.3, 0.7, 0.1],
    )
    ratio = np.interp(steps, [0, 40, 1500, 2000, 4000], [0.9, 0.03, 0.03, 0.11, 0.3])
    probe = np.full((len(steps), 2, 2), 0.5)
    probe[:, :, 0] = np.interp(on, [0, 0.2, 1], [0.05, 0.5, 1])[:, None]
    probe[:, :, 1] = 1 - probe[:, :, 0]
    curves = {
        "step": ((), steps),
        "loss": ((), np.full(len(steps), 5.0)),
        "query_norm": ((), np.interp(steps, [0, 50, 150], [1, 1, 100])),
        "on_frequent": (("query",), np.stack([on, on], axis=1)),
        "singular_values": (("rank",), np.stack([np.ones_like(ratio), ratio], axis=1)),
        "probe_attention": (("probe_query", "probe_key"), probe),
    }
    record = xr.Dataset(
        {
            name: (("text", "seed", "look", *axes), np.repeat(values[None, None], seeds, axis=1))
            for name, (axes, values) in curves.items()
        }
        | {
            "query_word": (("text", "query"), [["a", "b"]]),
            "probe_word": (("text", "probe_query"), [["a", "b"]]),
            "share": (("text",), [0.2]),
        },
        {"text": ["made by hand"]},
    )
    return with_settings(record, Settings(texts=("made by hand",)))


def verdict(record: xr.Dataset, words: str) -> str:
    (claim,) = [claim for claim in EXPERIMENT.claims(record) if words in claim.label]
    return claim.verdict


STEPS = np.unique(np.geomspace(1, 4001, 300).round()) - 1.0


def test_claims_hold_for_a_run_with_every_stage_and_fail_without_focus_dilution_or_a_new_direction() -> (
    None
):
    whole = staged(STEPS)
    for words in (
        "first direction when",
        "joint attention of all queries",
        "half its height",
        "second direction opens",
        "focuses again",
    ):
        assert verdict(whole, words) == HOLDS
    frozen = whole.copy(deep=True)
    frozen["on_frequent"][:] = 0.2
    for words in ("joint attention of all queries", "every run has a joint focus"):
        assert verdict(frozen, words) == FAILS
    for words in ("half its height", "focuses again"):  # nothing to ask it of
        assert verdict(frozen, words) == INCONCLUSIVE
    stuck = whole.copy(deep=True)
    stuck["on_frequent"][:] = np.maximum.accumulate(stuck["on_frequent"].values, axis=2)
    assert verdict(stuck, "half its height") == FAILS
    flat = whole.copy(deep=True)
    flat["singular_values"][..., 1] = 0.03
    assert verdict(flat, "second direction opens") == FAILS


def test_heat_maps_are_taken_at_the_stages() -> None:
    run = cycle_of(staged(STEPS), "made by hand")
    start, focus, spread, end = run.stage_looks().values()
    assert (start, end) == (0, len(STEPS) - 1)
    assert 140 <= run.step[focus] <= 1000 < run.step[spread]
    assert run.probe[spread, :, 0].max() < 0.7


def test_a_stage_that_one_seed_lacks_fails_and_one_seed_alone_cannot_tell() -> None:
    parted = staged(STEPS)
    parted["singular_values"][:, 1, :, 1] = 0.03
    assert verdict(parted, "second direction opens") == FAILS
    parted["on_frequent"][:, 1] *= 0.5  # a run without joint focus is not asked
    assert verdict(parted, "second direction opens") == HOLDS
    assert verdict(staged(STEPS, seeds=1), "second direction opens") == INCONCLUSIVE


def test_the_replications_numbers_judge_its_own_settings_alone() -> None:
    record = staged(STEPS).assign_coords(text=["wikitext-2"])
    quick, full = (
        with_settings(record.copy(), replace(Settings(), batch=batch)) for batch in (128, 512)
    )
    assert not [claim for claim in EXPERIMENT.claims(quick) if claim.against == REPLICATION]
    assert verdict(full, "median over queries (text wikitext-2, step 1000)") == HOLDS
    assert verdict(full, "median over queries (text wikitext-2, step 136)") == FAILS  # .95, not .67
    assert verdict(full, "median over queries (text wikitext-2, step 2940)") == FAILS
    parted = full.copy(deep=True)
    parted["on_frequent"][:, 0] = 0.5
    assert verdict(parted, "median over queries (text wikitext-2, step 1000)") == INCONCLUSIVE
