"""The whole staircase: the replicated event table, claims that can fail, any order of tokens, and
the file of events.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from saccade.cli import main
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.focus_dilution_cycle import (
    EXPERIMENT,
    Settings,
    events_of,
)
from saccade.lab.claim import FAILS, HOLDS, REPLICATION
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    """As it comes back from disk: claims must need nothing else."""
    return record_of("focus-dilution-cycle")


@pytest.fixture(scope="module")
def paper():
    return record_of(
        "focus-dilution-cycle", stationary=(0.75, 0.19, 0.05, 0.01), stay=0.3, t1=3000.0
    )


def verdicts(record):
    return {claim.label: claim.verdict for claim in EXPERIMENT.claims(record)}


def failed(record, part):
    return sum(verdict == FAILS for label, verdict in verdicts(record).items() if part in label)


def test_the_replicated_event_table_holds_and_so_does_all_else(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert len({claim.label for claim in claims}) == len(claims) == 50
    assert sum(claim.against == REPLICATION for claim in claims) == 42
    assert_as_in_the_readme("focus-dilution-cycle", claims)


def test_attention_that_is_off_by_a_twentieth_fails_every_value_but_no_time(record):
    off = record.assign(attention=record.attention + 0.05)
    assert failed(off, "attention on token 0") == 20
    assert failed(off, "time of") == 0


def test_a_flow_that_is_a_quarter_slower_fails_every_time(record):
    slow = record.assign_coords(time=1.25 * record.time)
    assert failed(slow, "time of") == sum("time of" in label for label in verdicts(record)) == 19


def test_weights_that_drift_fail_the_invariants_and_a_rise_fails_the_loss(record):
    ramp = 1e-6 * record.time / record.time.max()
    assert failed(record.assign(embedding=record.embedding * (1 + ramp)), "W₁W₁ᵀ") == 1
    assert failed(record.assign(key_matrix=record.key_matrix * (1 + ramp)), "largest drift") == 2
    assert (
        failed(record.assign(loss=record.loss + 1e-3 * np.sin(record.time)), "rise of the loss")
        == 1
    )


def test_attention_matrices_that_grow_first_fail_the_condensation(record):
    early = record.assign(query_matrix=record.query_matrix * (1 + record.time))
    assert failed(early, "|W_Q| at condensation") == 1
    assert failed(early, "first turn or direction") == 1


def test_an_embedding_that_never_condenses_is_noticed(record):
    rng = np.random.default_rng(3)
    spread = record.assign(embedding=record.embedding + 0.3 * rng.standard_normal((6, 8)))
    assert failed(spread, "share of the top direction") == 1
    assert failed(spread, "of seven") == 1


def test_the_paper_s_law_shows_every_stage_in_order_and_a_second_cycle(paper):
    claims = list(EXPERIMENT.claims(paper))
    assert not any(claim.against == REPLICATION for claim in claims)
    assert {claim.verdict for claim in claims} == {HOLDS}
    names = [event.name for event in events_of(paper)]
    assert names[:5] == [
        "condensation",
        "attention_frozen",
        "focus_onset",
        "focus_peak",
        "dilution",
    ]
    assert {"new_direction", "next_cycle"} <= set(names)


def test_tokens_in_another_order_have_the_same_events_under_their_new_names(paper):
    new_name = np.array([2, 0, 3, 1])  # of tokens 0, 1, 2, 3
    order = np.argsort(new_name)
    turned = paper.isel(token=order, query=order, next_token=order)
    expected = sorted(
        (e.name, -1 if e.query is None else int(new_name[e.query]), e.time)
        for e in events_of(paper)
    )
    assert (
        sorted((e.name, -1 if e.query is None else e.query, e.time) for e in events_of(turned))
        == expected
    )


def test_a_run_that_diverged_still_has_its_events_claims_table_and_figure(paper):
    reached = paper.time <= 1000
    weights = ("attention", "loss", "embedding", "projection", "query_matrix", "key_matrix")
    broken = paper.assign({name: paper[name].where(reached) for name in weights})
    assert {event.name for event in events_of(broken)} >= {
        "focus_peak",
        "dilution",
        "new_direction",
    }
    assert all(event.time <= 1000 for event in events_of(broken))
    assert len(list(EXPERIMENT.claims(broken))) == 8
    assert len(EXPERIMENT.rows(broken)) == 1501
    assert len(EXPERIMENT.figure(broken).axes) > 9


def test_theory_with_one_direction_tells_attention_until_a_second_opens_and_then_nothing(record):
    run = record.isel(seed=0)
    opened = next(event.time for event in events_of(record) if event.name == "new_direction")
    told, seen = run.predicted_attention.values, run.attention.values
    before = run.time.values <= opened
    assert np.abs(told - seen)[before].max() < 0.01
    assert np.abs(seen[before] - seen[0]).max() > 0.5  # by then it has focused and diluted
    assert np.isnan(told[~before]).all()
    frame = EXPERIMENT.film(record).spec()
    assert [row[0] is None for row in frame["theory"]] == [time > opened for time in frame["times"]]


@pytest.mark.parametrize(
    "settings", [{"stationary": (0.25,) * 4}, {"init_scale": 1.0}, {"t1": 1e-6}]
)
def test_where_theory_has_nothing_to_follow_the_run_stands_alone(settings):
    record = EXPERIMENT.run(Settings(t1=settings.pop("t1", 5.0), n_times=150, **settings))
    assert record.predicted_attention.shape == record.attention.shape


def test_the_table_holds_what_the_figure_shows(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 1501
    assert rows[0]["excess_loss"] == pytest.approx(np.log(6) - 1.18901, abs=1e-4)
    at = {name: rows[1400][name] for name in rows[0]}
    attention = record.attention.values[0, 1400]
    assert at["attention_on_frequent_3"] == attention[3, 0]
    assert at["entropy_2"] == pytest.approx(-(attention[2] * np.log(attention[2])).sum())
    assert at["embedding_s1"] == pytest.approx(np.linalg.norm(record.embedding.values[0, 1400], 2))


def test_the_command_takes_a_law_and_writes_its_events(tmp_path, capsys):
    arguments = [
        "--stationary",
        "0.05",
        "0.75",
        "0.01",
        "0.19",
        "--stay",
        "0.3",
        "--init-scale",
        "1e-2",
        "--t1",
        "300",
    ]
    assert (
        main(
            [
                "run",
                "focus-dilution-cycle",
                *arguments,
                "--seed",
                "5",
                "--n-times",
                "400",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    folder = tmp_path / "focus-dilution-cycle"
    with (folder / "events.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["event", "query", "time", "value"]
    assert [
        row[1] for row in rows[1:] if row[0] in ("condensation", "focus_onset", "new_direction")
    ] == ["", ""]
    assert {row[1] for row in rows if row[0] == "focus_peak"} == {
        "3"
    }  # the second most frequent; the most frequent is token 1
    times = [float(row[2]) for row in rows[1:]]
    assert times == sorted(times)
    assert json.loads((folder / "about.json").read_text())["settings"].startswith(
        '{"stationary": [0.05, 0.75'
    )
    capsys.readouterr()


def test_a_run_without_events_has_a_file_with_a_head():
    rows = EXPERIMENT.files(EXPERIMENT.run(Settings(t1=1.0, n_times=3)))
    assert rows == {"events.csv": (["event", "query", "time", "value"], [])}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stationary": (0.5, 0.6)}, "`stationary` must sum to 1"),
        ({"stationary": (1.0,)}, "`stationary` must have"),
        ({"stationary": (1.5, -0.5)}, "`stationary` must be positive"),
        ({"stay": 1.0}, "`stay`"),
        ({"init_scale": 0.0}, "`init_scale`"),
        ({"lr_attention": 0.0}, "`lr_attention`"),
        ({"seed": -1}, "`seed`"),
        ({"t1": float("nan")}, "`t1`"),
    ],
)
def test_mistakes_in_settings_are_named(settings, said):
    with pytest.raises(InputError, match=said):
        EXPERIMENT.run(Settings(**settings))
