"""The published experiment: what is read off a run, against plain computations."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade import InputError
from saccade.dynamics.embedded_descent import contexts, distinct
from saccade.experiments.focus_and_dilution import published_observables as observables
from saccade.experiments.focus_and_dilution.focus_dilution_published import (
    EXPERIMENT,
    MATRICES,
    Settings,
)
from saccade.experiments.focus_and_dilution.published_events import EVENTS, PEAK, Path
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, PUBLISHED
from saccade.model.embedded import Weights
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)

CHAIN = saccade.MarkovChain.paper(0.8)


@pytest.fixture(scope="module")
def small():
    return record_of(
        "focus-dilution-published",
        steps=100,
        short=20,
        width=12,
        sequences=300,
        batch=50,
        seeds=2,
        lr=5e-3,
    )


def path(**changed) -> Path:
    """Attention of all queries on token 0 rises to step 20 and leaves from step 30 on, the second
    query first.
    """
    time = np.arange(0, 60, 10)
    on_first = np.array(
        [
            [0.75] * 4,
            [0.9, 0.85, 0.85, 0.85],
            [1, 0.99, 0.98, 0.99],
            [1, 0.05, 0.9, 0.9],
            [1, 0, 0, 0.9],
            [1, 0, 0, 0],
        ]
    )
    norms = np.array(
        [
            [1, 1, 1, 1],
            [2, 2, 2, 2],
            [2, 0.5, 2, 2],
            [2, 0.3, 1, 2],
            [2, 0.9, 0.4, 1],
            [2, 1.5, 0.9, 0.2],
        ]
    )
    grown = np.linspace(0, 1, 6)
    return Path(
        time,
        0.75,
        on_first,
        0.9 * on_first,
        1 - grown,
        norms,
        np.outer(grown, [0, 1, 0.8, 0.2]),
        grown,
        grown,
    )._replace(**changed)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("all queries above 0.8 on token 0", 10),
        (PEAK, 20),
        ("least attention on token 0 at the peak", 0.98),
        ("every token once: least attention on token 0 at the peak", 0.882),
        ("loss at the peak", 0.6),
        ("query 1 back below the share of token 0", 30),
        ("query 2 below 0.1 on token 0", 40),
        ("query 3 below 0.1 on token 0", 50),
        ("row 1 of the embedding smallest after the focus", 30),
        ("norm of row 2 when smallest", 0.4),
        ("σ₂ above 0.5 σ₁ after the focus", 30),
        ("row 1 off the direction of row 0 by 0.3", 30),
        ("row 2 longer than 1", np.nan),
    ],
)
def test_events_are_read_at_the_step_where_they_happen(what, expected):
    np.testing.assert_allclose(EVENTS[what].read(path()), expected)


def test_the_loss_by_last_token_is_the_mean_over_the_sequences_that_end_with_it():
    rng = np.random.default_rng(0)
    weights = Weights(*(rng.standard_normal(shape) for shape in ((4, 5), (5, 5), (5, 5), (5, 4))))
    found = contexts(CHAIN, 0, 400, 7)
    logits = weights.embedding @ weights.query @ (weights.embedding @ weights.key).T
    losses = []
    for counts, last, target in zip(*found, strict=True):
        attention = counts * np.exp(logits[last])
        expect = np.exp(attention / attention.sum() @ weights.embedding @ weights.projection)
        losses.append(-np.log(expect[target] / expect.sum()))
    plain = [np.mean(np.array(losses)[found.last_token == token]) for token in range(4)]
    np.testing.assert_allclose(observables.group_loss(weights, distinct(found)), plain, rtol=2e-6)


def test_the_first_direction_of_a_matrix_has_the_share_that_its_singular_values_say():
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((30, 30)) + 4 * np.outer(
        rng.standard_normal(30), rng.standard_normal(30)
    )
    values = np.linalg.svd(matrix, compute_uv=False)
    assert observables.top_share(matrix) == pytest.approx(
        values[0] ** 2 / np.sum(values**2), rel=1e-9
    )


def test_the_part_off_the_first_embedding_is_none_of_its_own(small):
    np.testing.assert_allclose(small.off_first.isel(token=0), 0, atol=1e-6)
    assert (small.off_first <= small.row_norm + 1e-6).all()
    assert small.off_first.isel(token=1).min() > 1e-3


def test_the_probe_holds_every_token_once(small):
    """So its attention is that of an endless context over the tokens' shares, made to sum to one
    again.
    """
    plain = small.attention / np.array(Settings.stationary)
    np.testing.assert_allclose(small.probe_attention, plain / plain.sum("token"), rtol=1e-5)
    assert np.abs(small.probe_attention - small.attention).max() > 0.1


def test_principal_components_are_those_of_all_snapshots_together():
    """Snapshots in a plane off the origin, with a little noise off the plane: distances are kept,
    and so is the origin's place.
    """
    rng = np.random.default_rng(2)
    plane = rng.standard_normal((7, 3, 2)) * [3, 1]
    plane -= plane.mean(axis=(0, 1))
    axes = np.linalg.qr(rng.standard_normal((11, 2)))[0]
    found, share = observables.components(plane @ axes.T + 1e-9 * rng.standard_normal((7, 3, 11)))
    assert share == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(found, axis=-1), np.linalg.norm(plane, axis=-1), rtol=1e-7
    )
    assert np.var(found[..., 0]) > np.var(found[..., 1])
    assert observables.components(rng.standard_normal((70, 3, 11)))[1] == pytest.approx(
        2 / 11, abs=0.08
    )


def test_lengths_and_angles_in_the_plane():
    length, angle = np.moveaxis(
        observables.plane_length_and_angle(np.array([[2, 0], [1, 1], [0, -3], [-1, 0]])), -1, 0
    )
    np.testing.assert_allclose(length, [2, np.sqrt(2), 3, 1])
    np.testing.assert_allclose(angle, [0, 45, 90, 180], atol=1e-9)


def test_the_figure_has_a_cosine_map_of_every_matrix_and_the_attention_maps(small):
    titles = [panel["title"] for row in EXPERIMENT.specs(small) for panel in row]
    assert [
        sum(f"{matrix} matrix, step 50" in title for title in titles) for matrix in MATRICES
    ] == [1, 1, 1, 1]
    assert sum("every token once, step 0" in title for title in titles) == 1


LOOKS = [0, 50, 100, 150, 200, 300, 350, 500, 700, 1000, 1500]


def shown(record):
    """A record that says it has the published settings and steps, and shows what Fig. 2 does, with
    the focus at step 200.
    """
    record = with_settings(record.assign_coords(time=LOOKS), Settings())
    early, line = record.time <= 200, np.array([[3, 0], [2, 0.1], [2, -0.1], [2, 0.2]])
    late = np.where(
        (record.time < 500).values[:, None, None],
        [[5, 0], [0.5, 0.5], [0.5, 1], [-1, 0]],
        [[9, 0], [0, 5], [-5, 5], [-9, 0]],
    )
    plane = np.where(early.values[:, None, None], line, late)
    focused, apart = np.eye(4)[[0, 0, 0, 0]], np.eye(4)
    return record.assign(
        event=xr.full_like(record.event, 200.0),
        row_cosine=xr.where(
            (record.time < 100) & record.matrix.isin(["query", "key"]), 0.05, 0.95
        ).broadcast_like(record.row_cosine),
        components=(record.components.dims, np.broadcast_to(plane, record.components.shape)),
        probe_attention=xr.where(
            early, 0 * record.probe_attention + focused, 0 * record.probe_attention + apart
        ),
    )


def test_cosines_components_and_maps_that_are_wrong_are_seen(small):
    """Of a run whose rows, components and attention are put to what Fig. 2 shows, and then away
    from it.
    """
    right = shown(small)
    assert verdicts(right, "in every run") == {HOLDS}
    assert verdicts(right, "in that plane") == {HOLDS}
    assert verdicts(right, "context every token once") == {HOLDS}
    for matrix in MATRICES:
        wrong = right.row_cosine.where(right.matrix != matrix, 0.5)
        assert verdicts(right.assign(row_cosine=wrong), f"in every run, {matrix}") == {FAILS}
    stuck = right.components.where(right.time < 40, right.components.isel(time=0))
    assert verdicts(right.assign(components=stuck), "in that plane, at the end") == {FAILS}
    assert verdicts(right.assign(components=stuck), "where shortest") == {FAILS}
    stayed = right.probe_attention.where(right.time <= 200, right.probe_attention.isel(time=0))
    assert verdicts(
        right.assign(probe_attention=stayed), "any other query on token 0, at the end"
    ) == {FAILS}
    swapped = right.probe_attention.copy(data=right.probe_attention.values[..., [1, 0, 2, 3]])
    assert verdicts(right.assign(probe_attention=swapped), "of token 0 on itself") == {FAILS}


@pytest.mark.parametrize("batch, other", [("full", "1000"), ("1000", "full")])
def test_values_off_the_replications_range_are_seen_in_their_own_batch_alone(small, batch, other):
    """The loss after token 0 is put inside its range everywhere; then one batch off it, then one
    seed of two off it.
    """
    right = shown(small).assign_coords(batch=["full", "1000"])
    right = right.assign(group_loss=xr.full_like(right.group_loss, 0.245))
    off = right.assign(group_loss=right.group_loss + 0.1 * (right.batch == batch))
    seed = right.assign(
        group_loss=right.group_loss + 0.1 * ((right.batch == batch) & (right.seed == 1))
    )
    for step in (700, 1000, 1500):
        of_batch, of_other = (
            f"loss after token 0 (batch {name}, step {step})" for name in (batch, other)
        )
        assert (
            verdicts(right, of_batch)
            == verdicts(off, of_other)
            == verdicts(seed, of_other)
            == {HOLDS}
        )
        assert verdicts(off, of_batch) == {FAILS}
        assert verdicts(seed, of_batch) == {CANNOT_TELL}


def test_an_event_is_held_to_its_range_by_the_interval_over_seeds_and_a_missing_one_fails(small):
    right, words = shown(small).assign_coords(batch=["full", "1000"]), f"{PEAK} (batch 1000"
    assert verdicts(right, words) == {HOLDS}
    for wrong, verdict in ((500.0, {FAILS}), (np.nan, {FAILS})):
        assert (
            verdicts(right.assign(event=right.event.where(right.what != PEAK, wrong)), words)
            == verdict
        )
    in_one = (right.what == PEAK) & (right.seed == 1)
    assert verdicts(right.assign(event=right.event.where(~in_one, 300.0)), words) == {CANNOT_TELL}
    assert verdicts(right.assign(event=right.event.where(~in_one, np.nan)), words) == {FAILS}
    assert verdicts(right.isel(seed=[0]), words) == {
        HOLDS
    }  # of a single run the number itself is judged


def test_what_comes_too_late_with_mini_batches_is_a_failure_that_is_expected(small):
    right = shown(small).assign_coords(batch=["full", "1000"])
    above, words = (
        right.assign(group_loss=xr.full_like(right.group_loss, 1.3)),
        "loss after token 3 (batch 1000, step 1500)",
    )
    assert verdicts(above, words) == {FAILS}
    assert all(claim.as_expected for claim in EXPERIMENT.claims(above) if words in claim.label)
    reached = right.assign(group_loss=xr.full_like(right.group_loss, 1.1))
    assert all(claim.is_surprise for claim in EXPERIMENT.claims(reached) if words in claim.label)


def test_what_few_seeds_leave_open_is_no_failure_that_is_expected(small):
    right, words = (
        shown(small).assign_coords(batch=["full", "1000"]),
        "loss after token 2 (batch 1000, step 1500)",
    )
    open_ = right.assign(group_loss=xr.where(right.seed == 1, 1.3, 0.79) + 0 * right.group_loss)
    for record, expected in (
        (open_, CANNOT_TELL),
        (xr.concat([open_] * 2, "seed", data_vars="minimal"), FAILS),
    ):
        found = [claim for claim in EXPERIMENT.claims(record) if words in claim.label]
        assert [(claim.verdict, claim.expected) for claim in found] == [(CANNOT_TELL, expected)]


def test_only_the_captions_steps_count_as_published_numbers(small):
    published = {
        claim.title for claim in EXPERIMENT.claims(shown(small)) if claim.against == PUBLISHED
    }
    steps = "step at which attention of all queries to token 0"
    assert published == {f"{steps} begins to rise", f"{steps} is at its peak"}


def test_the_table_has_every_event_of_every_run_with_the_replications_range(small):
    rows = EXPERIMENT.rows(small)
    of_runs = [
        row
        for row in rows
        if row["chain"] == "lazy" and row["settings"] == "published" and row["what"] in EVENTS
    ]
    assert len(of_runs) == 2 * 2 * len(EVENTS)
    one = next(
        row for row in of_runs if row["what"] == PEAK and row["seed"] == 1 and row["batch"] == "50"
    )
    assert one["value"] == small.event.sel(what=PEAK, seed=1, batch="50").item()
    assert (one["replicated_low"], one["replicated_high"]) == (EVENTS[PEAK].low, EVENTS[PEAK].high)
    assert {row["settings"] for row in rows} == {"published", *small.variant.values.tolist()}


def test_cosine_maps_name_the_rows_that_they_sort(small):
    panel = next(
        panel
        for row in EXPERIMENT.specs(small)
        for panel in row
        if "embedding matrix, step 50" in panel["title"]
    )
    order = np.argsort(-small.cosines.sel(matrix="embedding", mapped=50).values[0, :4])
    assert panel["x"]["ticks"] == panel["y"]["ticks"] == [str(token) for token in order]
    assert panel["x"]["label"] == "token"


def test_the_captions_steps_would_hold_where_attention_rises_between_them(small):
    right = shown(small)
    printed = right.assign(onset=xr.full_like(right.onset, 110.0))
    assert verdicts(printed, "begins to rise (furthest of") == {HOLDS}
    assert verdicts(
        right.assign(onset=xr.full_like(right.onset, 350.0)), "begins to rise (furthest of"
    ) == {FAILS}


def test_other_settings_are_outside_the_claims(small):
    assert {claim.verdict for claim in EXPERIMENT.claims(small)} == {OUTSIDE}


def test_a_law_of_three_tokens_is_refused():
    with pytest.raises(InputError, match="at least four tokens"):
        EXPERIMENT.run(Settings(stationary=(0.5, 0.3, 0.2)))
