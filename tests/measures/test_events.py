"""Events against curves whose turns and crossings are known in closed form, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.errors import InputError
from saccade.experiments.rank_collapse.stage_one import stage_one
from saccade.measures.event import Event, stage_bands
from saccade.measures.events import find_events
from saccade.measures.turning_points import local_noise, smoothed
from saccade.theories import rank_collapse as theory

TIME = np.append(0.0, np.geomspace(0.1, 5000, 1500))
STEP = (5000 / 0.1) ** (1 / 1499)  # ratio of neighbouring samples


def bump(time, centre, height, width=0.2):
    """A Gaussian in log time."""
    return height * np.exp(-(np.log(np.maximum(time, 1e-9) / centre) ** 2) / (2 * width**2))


def of_kind(events, name, query=None):
    return [event for event in events if event.name == name and event.query == query]


def test_peaks_and_dips_are_found_at_their_times_with_their_prominences():
    attention = 0.4 + bump(TIME, 200, 0.3) - bump(TIME, 700, 0.25) + bump(TIME, 2000, 0.1)
    events = find_events(TIME, attention_on_frequent=attention[:, None])
    turns = [(event.name, event.time) for event in events]
    assert [name for name, _ in turns] == ["focus_peak", "dilution", "focus_peak"]
    np.testing.assert_allclose([time for _, time in turns], [200, 700, 2000], rtol=STEP - 1)
    np.testing.assert_allclose([event.value for event in events], [0.7, 0.15, 0.5], atol=1e-3)
    np.testing.assert_allclose([event.prominence for event in events], [0.3, 0.35, 0.1], atol=1e-3)


def test_a_turn_of_less_than_a_hundredth_is_seen_only_if_asked_for():
    attention = (0.4 + bump(TIME, 200, 0.009))[:, None]
    assert find_events(TIME, attention_on_frequent=attention) == []
    (event,) = find_events(TIME, attention_on_frequent=attention, prominence=0.005)
    assert event.prominence == pytest.approx(0.009, rel=1e-3)
    assert "asked for" in event.definition


def test_a_query_that_only_falls_dilutes_once_another_has_focused():
    falls = 0.4 - bump(TIME, 700, 0.3)
    rises = 0.4 + bump(TIME, 200, 0.1)
    alone = find_events(TIME, attention_on_frequent=falls[:, None])
    assert of_kind(alone, "dilution", 0) == []
    both = find_events(TIME, attention_on_frequent=np.stack([falls, rises], axis=1))
    (dilution,) = of_kind(both, "dilution", 0)
    assert dilution.time == pytest.approx(700, rel=STEP - 1)


def test_attention_that_leaves_for_good_has_no_minimum_and_is_still_found():
    gone = (0.4 + bump(TIME, 100, 0.1)) * np.exp(-TIME / 200)
    (peak, dilution) = find_events(TIME, attention_on_frequent=gone[:, None])
    assert (peak.name, dilution.name) == ("focus_peak", "dilution")
    assert dilution.time == pytest.approx(200 * np.log(0.4 / 0.01), rel=2 * STEP - 2)
    assert dilution.definition == "falls below 0.01 and stays there"


def test_the_noise_of_a_smooth_curve_is_zero_and_that_of_white_noise_its_deviation():
    rng = np.random.default_rng(3)
    curve = 0.4 + bump(TIME, 200, 0.3) - bump(TIME, 700, 0.25)
    assert local_noise(curve[:, None]).max() < 1e-9
    for deviation in (0.003, 0.02):
        noisy = curve[:, None] + deviation * rng.standard_normal((len(TIME), 11))
        assert np.sqrt(np.mean(local_noise(noisy) ** 2)) == pytest.approx(deviation, rel=0.05)


def test_noise_is_measured_where_it_is():
    rng = np.random.default_rng(5)
    late = np.where(TIME > 100, 0.02, 0.0)[:, None] * rng.standard_normal((len(TIME), 17))
    noise = local_noise(0.4 + late)
    assert noise[TIME < 50].max() == 0
    assert np.sqrt(np.mean(noise[TIME > 200] ** 2)) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("n_samples", [61, 401, 1501])
def test_noise_alone_makes_no_event(n_samples):
    rng = np.random.default_rng(7)
    noise = 0.4 + 0.05 * rng.standard_normal((n_samples, 101))
    assert len(find_events(np.arange(n_samples), attention_on_frequent=noise)) <= 1


def test_a_noisy_run_has_the_turns_of_the_run_without_noise():
    rng = np.random.default_rng(11)
    quiet = 0.4 + bump(TIME, 200, 0.3) - bump(TIME, 700, 0.25) + bump(TIME, 2000, 0.3)
    noisy = quiet + 0.02 * rng.standard_normal(len(TIME))
    true, found = (find_events(TIME, attention_on_frequent=x[:, None]) for x in (quiet, noisy))
    assert [event.name for event in found] == [event.name for event in true]
    np.testing.assert_allclose([e.time for e in found], [e.time for e in true], rtol=0.1)
    np.testing.assert_allclose([e.value for e in found], [e.value for e in true], atol=0.02)


def test_smoothing_leaves_quiet_curves_alone():
    rng = np.random.default_rng(13)
    curves = np.stack([np.sin(np.linspace(0, 9, 401)), 0.1 * rng.standard_normal(401)], axis=1)
    smooth = smoothed(curves, local_noise(curves))
    np.testing.assert_array_equal(smooth[:, 0], curves[:, 0])
    assert smooth[:, 1].std() == pytest.approx(0.1 / np.sqrt(5), rel=0.3)


def test_condensation_is_where_the_top_direction_has_its_share():
    """s_1 = e^t and s_2 = 1: the share is .999 at t = ln(999) / 2."""
    time = np.linspace(0, 7, 1001)
    values = np.stack([np.exp(time), np.ones_like(time)], axis=1)
    (event,) = of_kind(find_events(time, embedding_singular_values=values), "condensation")
    assert event.time == pytest.approx(np.log(999) / 2, abs=0.007)
    assert event.prominence == pytest.approx(1 / (1 + np.exp(-14)) - 0.5)


def test_directions_open_one_by_one_when_they_reach_a_tenth():
    """s_k / s_1 starts above a tenth, falls below, and rises as e^(t - 3k)."""
    time = np.linspace(0, 12, 2401)
    others = [np.exp(-5 * time) + np.exp(time - 3 * k) for k in (2, 3)]
    values = np.stack([np.full_like(time, 1.0), *others, np.zeros_like(time)], axis=1)
    events = of_kind(find_events(time, embedding_singular_values=values), "new_direction")
    assert [event.value for event in events] == [2, 3]
    np.testing.assert_allclose(
        [event.time for event in events], np.log(0.1) + np.array([6, 9]), atol=0.006
    )


def test_a_direction_that_hovers_around_a_tenth_at_the_start_opens_nothing():
    time = np.linspace(0, 12, 2401)
    hovering = 0.1 * (1 + 0.05 * np.sin(9 * time)) * np.exp(-np.maximum(time - 3, 0))
    values = np.stack([np.ones_like(time), hovering], axis=1)
    assert of_kind(find_events(time, embedding_singular_values=values), "new_direction") == []


def test_a_start_that_is_rank_one_does_not_condense():
    values = np.stack([np.ones(17), np.full(17, 1e-3)], axis=1)
    assert find_events(np.arange(17), embedding_singular_values=values) == []


def test_focus_begins_when_the_query_matrix_has_tripled_or_has_one_direction():
    time = np.linspace(0, 5, 1001)
    (grown,) = find_events(time, query_norm=0.3 * np.exp(time))
    assert grown.name == "focus_onset"
    assert grown.time == pytest.approx(np.log(3), abs=0.005)
    values = np.stack([np.exp(time), np.ones_like(time)], axis=1)
    (aligned,) = find_events(time, query_key_singular_values=values)
    share = 1 / (1 + np.exp(-2 * aligned.time))
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert np.exp(entropy) == pytest.approx(1.5, abs=0.01) == aligned.value


def test_attention_is_frozen_when_the_loss_has_fallen_and_attention_has_not_moved():
    """Loss 1 + e^(-t/5), attention moves at t = 100: 99 % of the fall is done at t = 5 ln 100."""
    time = np.linspace(0, 300, 3001)
    loss = 1 + np.exp(-time / 5)
    attention = 0.4 + 0.2 / (1 + np.exp(100 - time))
    (event,) = of_kind(
        find_events(time, attention_on_frequent=attention[:, None], loss=loss), "attention_frozen"
    )
    assert event.time == pytest.approx(5 * np.log(100), abs=0.11)
    assert event.value == pytest.approx(0.4)
    noisy = loss + 0.01 * np.random.default_rng(17).standard_normal(len(loss))
    (event,) = of_kind(
        find_events(time, attention_on_frequent=attention[:, None], loss=noisy), "attention_frozen"
    )
    assert event.time == pytest.approx(5 * np.log(100), rel=0.3)


def test_the_level_that_counts_is_that_of_the_last_sample_before_attention_moves():
    """Loss 1 + e^(-t/5); at t = 100 attention jumps and the loss falls on: what counts is its fall
    until then.
    """
    time = np.linspace(0, 300, 301)
    again = np.clip(time - 100, 0, 20)
    loss, attention = 1 + np.exp(-time / 5) - 0.015 * again, 0.4 + 0.2 * (time > 100)
    (event,) = of_kind(
        find_events(time, attention_on_frequent=attention[:, None], loss=loss), "attention_frozen"
    )
    assert event.time == pytest.approx(5 * np.log(100), abs=1.1)


def test_attention_that_moves_before_the_loss_was_never_frozen():
    time = np.linspace(0, 300, 3001)
    loss = 2 - 1 / (1 + np.exp(200 - time))
    attention = 0.4 + 0.2 / (1 + np.exp(100 - time))
    assert find_events(time, attention_on_frequent=attention[:, None], loss=loss) == []


def test_the_next_cycle_is_the_first_focus_after_a_direction():
    attention = np.stack(
        [0.4 + bump(TIME, 200, 0.1) + bump(TIME, at, 0.2) for at in (1500, 900)], axis=1
    )
    values = np.stack([np.ones_like(TIME), np.where(TIME < 500, 0.01, 0.2)], axis=1)
    events = find_events(TIME, attention_on_frequent=attention, embedding_singular_values=values)
    (cycle,) = [event for event in events if event.name == "next_cycle"]
    assert cycle.query == 1
    assert cycle.time == pytest.approx(900, rel=STEP - 1)


def observed(n_queries=3):
    rng = np.random.default_rng(19)
    attention = np.stack(
        [0.4 + bump(TIME, 150 + 40 * q, 0.2) - bump(TIME, 700, 0.1 * q) for q in range(n_queries)],
        axis=1,
    )
    values = np.stack(
        [np.exp(np.minimum(TIME / 5, 9)), *(1 + (TIME / t) ** 3 * 80 for t in (600, 900))], axis=1
    )
    return {
        "attention_on_frequent": attention,
        "embedding_singular_values": values,
        "query_norm": 1 + rng.random() * TIME,
        "loss": 1 + np.exp(-TIME / 20),
    }


def test_rescaled_time_rescales_every_event_and_nothing_else():
    given = observed()
    events, slower = find_events(TIME, **given), find_events(7 * TIME, **given)
    assert len(events) > 9
    for event, other in zip(events, slower, strict=True):
        assert other.time == pytest.approx(7 * event.time)
        assert (other.name, other.query, other.value) == (event.name, event.query, event.value)


def test_events_of_one_query_do_not_depend_on_the_others_order():
    given = observed()
    turned = given | {"attention_on_frequent": given["attention_on_frequent"][:, ::-1]}
    events, other = find_events(TIME, **given), find_events(TIME, **turned)
    mirrored = {(e.name, None if e.query is None else 2 - e.query, e.time) for e in other}
    assert {(e.name, e.query, e.time) for e in events} == mirrored


def test_a_run_that_diverged_has_the_events_of_the_part_before():
    given = observed()
    whole = 1200
    cut = find_events(TIME[:whole], **{name: values[:whole] for name, values in given.items()})
    broken = {
        name: np.where((np.arange(len(TIME)) < whole).reshape(-1, *[1] * (v.ndim - 1)), v, np.nan)
        for name, v in given.items()
    }
    assert find_events(TIME, **broken) == cut != []
    nothing = {name: np.full_like(values, np.nan) for name, values in given.items()}
    assert find_events(TIME, **nothing) == []


@pytest.mark.parametrize("n_samples", range(6))
def test_few_samples_are_no_error(n_samples):
    given = {name: values[:n_samples] for name, values in observed().items()}
    assert isinstance(find_events(TIME[:n_samples], **given), list)


def test_weights_that_are_all_zero_have_no_events():
    nothing = np.zeros((17, 5))
    found = find_events(
        np.arange(17),
        embedding_singular_values=nothing,
        query_key_singular_values=nothing,
        query_norm=np.zeros(17),
    )
    assert found == []


@pytest.mark.parametrize(
    ("time", "given", "said"),
    [
        ([0, 2, 1], {"loss": [3, 2, 1]}, "increase"),
        ([0, 1, np.nan], {"loss": [3, 2, 1]}, "finite"),
        ([0, 1, 2], {}, "pass some of"),
        ([0, 1, 2], {"my_curve": [3, 2]}, "my_curve"),
        ([0, 1, 2], {"query_norm": [3, 2]}, "each of the 3 times"),
        ([0, 1, 2], {"query_norm": [3, np.nan, 1]}, "gaps"),
        ([0, 1, 2], {"loss": ["a", "b", "c"]}, "numbers"),
        ([0, 1, 2], {"attention_on_frequent": [1, 2, 3]}, "time, query"),
        ([0, 1, 2], {"embedding_singular_values": np.ones((3, 0))}, "time, rank"),
        ([0, 1, 2], {"loss": [3, 2, 1], "prominence": -1}, "prominence"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(time, given, said):
    with pytest.raises(InputError, match=said):
        find_events(time, **given)


def test_any_trajectory_has_its_turns_whatever_its_size():
    """A sine of amplitude 1e6 with noise, the loss alone, several curves: peaks and dips where they
    are, and none from noise.
    """
    time = np.linspace(0, 4 * np.pi, 400)
    noise = np.random.default_rng(2).standard_normal(len(time))
    found = find_events(time, temperature=1e6 * (np.sin(time) + 0.02 * noise))
    assert [event.name for event in found] == ["temperature_peak", "temperature_dip"] * 2
    np.testing.assert_allclose(
        [event.time for event in found], np.pi * np.array([0.5, 1.5, 2.5, 3.5]), atol=0.25
    )
    np.testing.assert_allclose([event.value / 1e6 for event in found], [1, -1, 1, -1], atol=0.1)
    assert [event.name for event in find_events(time, loss=5 + np.sin(time / 2))] == [
        "loss_peak",
        "loss_dip",
    ]
    assert find_events(time, loss=np.exp(-time) + 1e-3 * noise) == []
    several = find_events(time, mine=np.stack([np.exp(-time), np.sin(time / 2)], axis=1))
    assert {event.query for event in several} == {1}


def test_a_record_that_has_some_things_less_often_than_others_gives_events_at_what_is_whole():
    values = np.full((6, 4), np.nan)
    values[::2, :3] = [[1.0, 0.9, 0.01], [1.0, 0.01, 0.01], [1.0, 0.005, 0.3]]
    record = xr.Dataset(
        {
            "embedding_singular_values": (("time", "rank"), values),
            "loss": (("time",), np.linspace(3, 1, 6)),
        },
        {"time": np.arange(6)},
    )
    assert [(event.name, event.time) for event in find_events(record)] == [
        ("condensation", 2.0),
        ("new_direction", 4.0),
    ]


def at(name, time, query=None):
    return Event(name, query, time, 0.0, 0.0, "")


def test_bands_tile_the_run_in_the_order_of_the_stages():
    events = [
        at("condensation", 30.0),
        at("attention_frozen", 60.0),
        at("focus_onset", 110.0),
        at("focus_peak", 190.0, 5),
        at("focus_peak", 200.0, 1),
        at("new_direction", 500.0),
        at("new_direction", 950.0),
    ]
    bands = stage_bands(events, 5000.0)
    assert [name for name, _, _ in bands] == [
        "condensation",
        "frozen",
        "focus",
        "dilution",
        "cycle 2",
        "cycle 3",
    ]
    assert [start for _, start, _ in bands] == [0, 60, 110, 190, 500, 950]
    assert [end for _, _, end in bands] == [60, 110, 190, 500, 950, 5000]
    assert stage_bands([], 5.0) == [("condensation", 0.0, 5.0)]


def test_a_stage_that_a_later_one_overtakes_has_no_band():
    """Adam grows the query matrix while the loss is still falling."""
    events = [at("focus_onset", 200.0), at("attention_frozen", 290.0), at("focus_peak", 870.0, 0)]
    assert stage_bands(events, 8000.0) == [
        ("condensation", 0, 200),
        ("focus", 200, 870),
        ("dilution", 870, 8000),
    ]


def test_the_loss_escapes_where_it_leaves_its_first_plateau():
    """1 - L = e^(t - 20) until it saturates: a hundredth of the fall at t = 20 - ln 100."""
    time = np.linspace(0, 40, 4001)
    (event,) = of_kind(find_events(time, loss=1 - 0.4 * np.minimum(np.exp(time - 20), 1)), "escape")
    assert event.time == pytest.approx(20 - np.log(100), abs=0.011)
    assert event.prominence == pytest.approx(0.4)


def test_three_samples_are_enough_for_an_escape():
    (event,) = of_kind(
        find_events(np.array([0.0, 10.0, 11.0]), loss=np.array([1.0, 1.0, 0.5])), "escape"
    )
    assert (event.time, event.prominence) == (11, 0.5)


@pytest.mark.parametrize(
    "time", [np.linspace(0, 40, 4001), np.arange(40.0), TIME], ids=["fine", "coarse", "log"]
)
@pytest.mark.parametrize("start", [0.0, 1000.0])
def test_a_loss_that_falls_at_once_escapes_from_nothing(time, start):
    """Whenever the clock started."""
    assert of_kind(find_events(start + time, loss=0.6 + 0.4 * np.exp(-time / 5)), "escape") == []
    assert of_kind(find_events(time, loss=np.ones_like(time)), "escape") == []


def test_a_noisy_loss_escapes_at_about_the_same_time_and_noise_alone_does_not():
    time, rng = np.linspace(0, 40, 401), np.random.default_rng(5)
    noise = 0.005 * rng.standard_normal(len(time))
    (event,) = of_kind(find_events(time, loss=1 - 0.6 / (1 + np.exp(20 - time)) + noise), "escape")
    assert 15 < event.time < 20
    assert of_kind(find_events(time, loss=1 + noise), "escape") == []


def test_rank_collapses_where_the_second_singular_value_is_a_tenth_of_the_first():
    time = np.linspace(0, 7, 1001)
    values = np.stack([np.exp(time), np.full_like(time, 0.7), np.full_like(time, 0.3)], axis=1)
    (event,) = find_events(time, query_singular_values=values)
    assert (event.name, event.value) == ("rank_collapse", pytest.approx(0.1, rel=0.01))
    assert event.time == pytest.approx(np.log(7), abs=0.01)
    assert find_events(time, query_singular_values=values[::-1]) == []
    assert find_events(time, query_singular_values=values[:, :1]) == []


def test_a_record_of_a_classifier_shows_condensation_escape_and_rank_collapse_when_they_are_predicted():
    task, eps = theory.TwoClue(), 1e-3
    system = saccade.models.AttentionClassifier(
        saccade.data.LabelledSequences.two_clue(), init_scale=eps
    )
    unit_time, rate = (
        stage_one(system.sequences, 0).end,
        np.linalg.norm(task.drive(task.beta_star), 2),
    )
    end, opening = unit_time / eps, np.log(0.1 / eps) / rate
    times = saccade.engines.times_around(end, end + opening, until=end + 2 * opening, n_times=80)
    events = find_events(
        saccade.flow(
            system,
            times=times,
            seed=0,
            keep=["parameter_value", "parameter_query", "parameter_key"],
        )
    )
    at = {event.name: event.time for event in events}
    last = float(task.escape_offset(task.plateau + 0.01))
    assert end - 60 < at["escape"] < end + last
    assert at["condensation"] < at["escape"] < at["rank_collapse"] < end + opening


def test_a_record_without_time_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="axis `time`"):
        find_events(xr.Dataset({"loss": 1.0}))


def test_a_record_says_what_it_lacks_for_stages_to_be_looked_for():
    axes = {"time": np.arange(5.0), "class": [0, 1], "token": [0, 1]}
    bare = xr.Dataset({"loss": ("time", np.ones(5))}, {"time": axes["time"]})
    with pytest.warns(
        UserWarning,
        match=r"searches only the loss, .* `attention` .* with `stationary`, or .*`embedding`",
    ):
        find_events(bare)
    seen = xr.Dataset(
        {"attention": (tuple(axes), np.full((5, 2, 2), 0.5)), "loss": ("time", np.ones(5))}, axes
    )
    with pytest.warns(
        UserWarning,
        match="does not know which tokens are frequent.*`token_prob` and `class_weight`",
    ):
        find_events(seen.assign(embedding=(("time", "token", "width"), np.ones((5, 2, 2)))))
    find_events(bare, speed=np.arange(5.0))  # was asked of that alone; warnings are errors here
    prob = {"token_prob": (("class", "token"), np.eye(2)), "class_weight": ("class", [0.5, 0.5])}
    find_events(seen.assign(prob))
    with pytest.raises(
        InputError,
        match=r"those of one head: `attention` also has the axes head; take record.isel\(head=0\)",
    ):
        find_events(seen.assign(prob).expand_dims(head=2).transpose("time", "head", ...))
