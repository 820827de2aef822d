"""Theory in the browser against `saccade.theories`: the same numbers, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.experiments.scan_and_snap.snap_growth import SnapTheory, one_common_token
from saccade.forecasting.starts import random_start
from saccade.models.rank_one import RankOne
from saccade.theories import focus_and_dilution, scan_and_snap

from .comparison import CLOSE, NOTHING, THREE, by_matrix, entrywise, said, task_settings

SAME = 1e-9
TIMES = [0.01, 0.7, 5.0, 42.0, 1e3, 1e6, 1e12]
_CLOCK = """([settings, times]) => {
  const { curve, growthClock, ...constants } = Theory.scanAndSnap(settings);
  return { ...constants, curves: times.map((t) => ({ ...curve(t), height: growthClock.height(t) })) };
}"""
_CYCLE = """([settings, times]) => {
  const { curve, ...constants } = Theory.focusAndDilution(settings);
  return { ...constants, curves: times.map((t) => curve(t)) };
}"""


CASES = {
    "one common token, 1000 tokens": (
        one_common_token(n_classes=4, common_feature=0.2, n_distinct=5, n_vocab=1000),
        1.3,
        0.4,
    ),
    "syn-small": (saccade.SequenceClasses.syn_small(), 1.0, 2.0),
    "five tokens": (
        one_common_token(n_classes=2, common_feature=0.5, n_distinct=1, n_vocab=6),
        0.2,
        3.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_closed_forms_of_scan_and_snap_are_those_of_python(page, name):
    task, lr_decoder, lr_attention = CASES[name]
    theory = SnapTheory.of_task(task, lr_decoder, lr_attention)
    settings = task_settings(
        task, nVocab=task.n_vocab, lrDecoder=lr_decoder, lrAttention=lr_attention
    )
    found = page.evaluate(_CLOCK, [settings, TIMES])
    peak = scan_and_snap.speed_peak(**theory.clock)
    assert [found["scanTime"], found["onset"]] == pytest.approx(
        [theory.scan_time, theory.snap_time], rel=SAME
    )
    assert [found["normaliser"], found["concentration"]] == pytest.approx(
        [theory.normaliser, theory.concentration], rel=SAME
    )
    assert [found["speedPeak"]["time"], found["speedPeak"]["value"]] == pytest.approx(
        list(peak), rel=SAME
    )
    height = scan_and_snap.decoder_height(
        np.array(TIMES) / task.n_classes, n_vocab=task.n_vocab, lr_decoder=lr_decoder
    )
    expected = {
        "height": height,
        "speed": scan_and_snap.speed(TIMES, **theory.clock),
        "printedGrowth": theory.printed_growth(TIMES),
    }
    for key, wanted in expected.items():
        np.testing.assert_allclose([curve[key] for curve in found["curves"]], wanted, rtol=SAME)
    # ln(v / v_0) of two nearly equal numbers: its error is absolute, of the size of rounding over
    # how much v moves
    np.testing.assert_allclose(
        [curve["growth"] for curve in found["curves"]], theory.growth(TIMES), rtol=SAME, atol=1e-13
    )


def test_the_curve_of_scan_and_snap_is_the_theorys_own_flow_at_any_order_of_times(page):
    record = saccade.reduced_flow(THREE, t1=1e4, n_times=6, rtol=1e-11, atol=1e-13)
    times = record.time.values[::-1].tolist()
    found = page.evaluate(_CLOCK, [task_settings(THREE), times])
    errors = {
        "attention": [
            entrywise(c["attention"], a, NOTHING)
            for c, a in zip(found["curves"], record.attention.values[::-1], strict=True)
        ]
    }
    assert said("theory's own flow, backwards", errors) < CLOSE


def chain_case(chain, stay, model, seed, **rates):
    start = random_start(chain, model, seed)
    names = ("embedding", "query", "key", "projection")
    given = {name: matrix.tolist() for name, matrix in zip(names, start.weights, strict=True)}
    return start, {"stationary": chain.stationary.tolist(), "stay": stay, "start": given, **rates}


@pytest.mark.parametrize("stay", [0.5, -0.05])
def test_closed_forms_of_the_first_cycle_are_those_of_python(page, stay):
    chain, model, lr_decoder, lr_attention = (
        saccade.MarkovChain.zipf(6, stay),
        saccade.models.Embedded(d_model=7, d_key=5),
        0.7,
        1.9,
    )
    start, settings = chain_case(
        chain, stay, model, 2, lrDecoder=lr_decoder, lrAttention=lr_attention
    )
    law = {"stationary": chain.stationary}
    W0, WQ, WK, W1 = start.weights
    rate = focus_and_dilution.focus_rate(
        **law, transition=chain.transition, lr_attention=lr_attention
    )
    end = focus_and_dilution.condensation_time(W0, W1, **law, lr_decoder=lr_decoder)
    expected = {
        "condensationRate": focus_and_dilution.condensation_rate(**law, lr_decoder=lr_decoder),
        "condensationEnd": end,
        "focusRate": rate,
        "focusSign": focus_and_dilution.focus_sign(**law, transition=chain.transition),
        "focusOnset": end
        + focus_and_dilution.focus_onset(WQ, WK, direction=start.direction, rate=rate),
        "plateauLoss": chain.unigram_loss,
        "plateauValue": focus_and_dilution.embedding_norm(**law),
    }
    found = page.evaluate(_CYCLE, [settings, []])
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=SAME)
    np.testing.assert_allclose(found["direction"], start.direction, rtol=SAME)
    point = found["manifoldStart"]
    np.testing.assert_allclose(
        [point["query"], point["key"]], [start.point.query, start.point.key], rtol=SAME
    )
    np.testing.assert_allclose(point["gamma"], start.point.gamma, rtol=SAME)
    np.testing.assert_allclose(point["beta"], start.point.beta, rtol=SAME)


def test_the_curve_of_the_first_cycle_is_the_rank_one_flow_of_python(page):
    chain, model = saccade.MarkovChain.zipf(6, 0.5), saccade.models.Embedded(d_model=7, d_key=5)
    start, settings = chain_case(chain, 0.5, model, 1)
    record = saccade.reduced_flow(
        chain, t1=500.0, n_times=15, start=RankOne(*start.point), rtol=1e-11, atol=1e-13
    )
    found = page.evaluate(_CYCLE, [settings, record.time.values.tolist()])
    assert found["guideUntil"] > 500
    curves = found["curves"]
    norms = np.linalg.norm(record.gamma.values, axis=1)
    errors = {
        "attention": [
            entrywise(c["attention"], a, NOTHING)
            for c, a in zip(curves, record.attention.values, strict=True)
        ],
        "loss": [entrywise(c["loss"], a) for c, a in zip(curves, record.loss.values, strict=True)],
        "first singular value": [
            by_matrix(c["singularValues"], [a]) for c, a in zip(curves, norms, strict=True)
        ],
    }
    assert said("rank-one flow", errors) < CLOSE
