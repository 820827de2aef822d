"""How the browser's engine behaves under way: frames, budgets, random starts, speed, and settings
that cannot be used.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

import saccade

from .comparison import THREE, task_settings
from .engine_page import OPTIONAL, SCRIPTS

CLASSES = task_settings(THREE)
CHAIN = {
    "stationary": saccade.MarkovChain.zipf(6).stationary.tolist(),
    "stay": 0.5,
    "dModel": 20,
    "seed": 4,
}
_CUT = """([model, settings, end, cuts]) => {
  const engine = { ScanAndSnap, FocusAndDilution }[model];
  const whole = engine.create(settings), frames = engine.create(settings), hasty = engine.create(settings);
  whole.advance(end);
  for (let n = 1; n <= cuts; n++) frames.advance((end * n ** 2) / cuts ** 2);
  let calls = 0;
  while (hasty.time < end) { hasty.advance(end, 0); calls += 1; }
  return { runs: [whole, frames, hasty].map((run) => ({ time: run.time, ...run.parameters() })), calls };
}"""


@pytest.mark.parametrize(
    ("model", "settings", "end"),
    [
        ("ScanAndSnap", CLASSES, 1e5),
        ("ScanAndSnap", CLASSES | {"optimiser": "reduced"}, 1e5),
        ("ScanAndSnap", CLASSES | {"optimiser": "adam", "lrDecoder": 0.1, "lrAttention": 0.1}, 400),
        ("FocusAndDilution", CHAIN, 650.0),
        ("FocusAndDilution", CHAIN | {"dModel": 7, "dKey": 3}, 1400.0),  # with stiff steps
        (
            "FocusAndDilution",
            CHAIN | {"optimiser": "momentum", "momentum": 0.5, "lrDecoder": 0.2},
            400,
        ),
    ],
)
def test_a_run_does_not_depend_on_how_time_was_cut(page, model, settings, end):
    found = page.evaluate(_CUT, [model, settings, end, 101])
    whole, frames, hasty = found["runs"]
    assert found["calls"] > 10  # the budget was felt
    assert whole == frames == hasty  # to the last bit


def test_the_playground_loads_the_engines_scripts_in_this_order():
    page = files("saccade.playground").joinpath("index.html").read_text()
    places = {script: page.find(f'<script src="{script}"></script>') for script in SCRIPTS}
    assert {script for script, place in places.items() if place < 0} <= set(OPTIONAL)
    loaded = [place for place in places.values() if place >= 0]
    assert loaded == sorted(loaded)


def test_a_time_inside_a_step_is_as_exact_as_one_at_its_end(page):
    """The decoder of one class alone has a closed form; times fall inside steps at every place."""
    script = """(times) => {
      const run = ScanAndSnap.create({ tokenProb: [[1]], nVocab: 50, optimiser: "reduced" });
      return times.map((t) => { run.advance(t); return run.parameters().ownLogit[0] - run.parameters().otherLogit[0]; });
    }"""
    times = np.geomspace(1e-3, 1e8, 301)
    from saccade.theories import scan_and_snap

    height = scan_and_snap.decoder_height(times, n_vocab=50, lr_decoder=1.0)
    np.testing.assert_allclose(page.evaluate(script, times.tolist()), 50 * height, rtol=1e-9)


def test_stiff_steps_stay_on_the_explicit_path_and_are_far_fewer(page):
    """Four directions open; without the curvature the explicit method goes the whole way."""
    script = """(settings) => {
      const run = FocusAndDilution.create(settings), model = EmbeddedModel.create(run.task);
      const explicit = Integrate.flow(model.direction, model.start, [{ from: 0, to: model.start.length, rate: 1 }]);
      run.advance(1800);
      explicit.advance(1800);
      return [run.parameters(), model.parameters(explicit.state), run.evaluations, explicit.evaluations];
    }"""
    stiff, explicit, fewer, more = page.evaluate(script, CHAIN | {"dModel": 7, "dKey": 3})
    worst = max(
        np.abs(np.subtract(stiff[name], explicit[name])).max() / np.abs(explicit[name]).max()
        for name in stiff
    )
    print(f"stiff against explicit at t = 1800: {worst:.1e}; evaluations {fewer} instead of {more}")
    assert worst < 1e-8
    assert fewer < more / 2


def test_a_seed_repeats_its_start_and_another_draws_another(page):
    script = "(seed) => FocusAndDilution.create({ stationary: [0.5, 0.3, 0.2], dModel: 64, dKey: 64, initScale: 1, seed }).parameters()"
    first, again, other = (page.evaluate(script, seed) for seed in (5, 5, 2**40 + 5))
    assert first == again
    assert first["query"] != other["query"]
    drawn = np.concatenate([np.ravel(first[name]) for name in ("query", "key")])
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert drawn.std() == pytest.approx(1, abs=4 / np.sqrt(2 * drawn.size))
    assert np.mean(np.abs(drawn) < 1) == pytest.approx(0.6827, abs=0.02)
    assert len(np.unique(drawn)) == drawn.size


def test_singular_values_keep_their_digits_far_below_the_largest(page):
    rng = np.random.default_rng(0)
    left, right = (
        np.linalg.qr(rng.standard_normal((5, 5)))[0],
        np.linalg.qr(rng.standard_normal((7, 7)))[0],
    )
    values = np.array([3.0, 1e-2, 1e-5, 1e-9, 1e-12])
    matrix = left @ (values[:, None] * right[:5])
    found = page.evaluate(
        "(m) => LinearAlgebra.singularValues(Float64Array.from(m), 5, 7)", matrix.ravel().tolist()
    )
    np.testing.assert_allclose(found, values, rtol=0, atol=1e-14)


def test_frames_at_default_sizes_leave_time_to_draw(page):
    """Median time of a frame over a whole run in 400 frames of equal length in the logarithm, a
    look included.
    """
    script = """([model, settings, last]) => {
      const run = { ScanAndSnap, FocusAndDilution }[model].create(settings), took = [];
      for (let n = 1; n <= 400; n++) {
        const before = performance.now();
        run.advance(0.1 * (10 * last) ** (n / 400));
        run.observe();
        took.push(performance.now() - before);
      }
      took.sort((a, b) => a - b);
      return { median: took[200], slowest: took[399], whole: took.reduce((a, b) => a + b), evaluations: run.evaluations };
    }"""
    five = saccade.SequenceClasses.syn_medium(3)
    cases = {
        "six classes, 70 tokens": ["ScanAndSnap", task_settings(five), 1e6],
        "syn-small": ["ScanAndSnap", task_settings(saccade.SequenceClasses.syn_small()), 1e6],
        "zipf-6, width 20": ["FocusAndDilution", CHAIN, 1000.0],
        "zipf-6, width 32": ["FocusAndDilution", CHAIN | {"dModel": 32}, 1000.0],
    }
    for name, case in cases.items():
        found = page.evaluate(script, case)
        print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in found.items()))
        assert found["median"] < 1000 / 30 / 2


BAD = {
    "no settings at all": ("ScanAndSnap", None),
    "a list": ("FocusAndDilution", [1]),
    "no classes": ("ScanAndSnap", {"tokenProb": []}),
    "an empty class": ("ScanAndSnap", {"tokenProb": [[]]}),
    "ragged classes": ("ScanAndSnap", {"tokenProb": [[1], [0.5, 0.5]]}),
    "a negative chance": ("ScanAndSnap", {"tokenProb": [[1.5, -0.5]]}),
    "chances that add up to two": ("ScanAndSnap", {"tokenProb": [[1, 1]]}),
    "text for a chance": ("ScanAndSnap", {"tokenProb": [["<b>", 1]]}),
    "one next token for two classes": (
        "ScanAndSnap",
        {"tokenProb": [[1, 0], [0, 1]], "nextToken": [3, 3]},
    ),
    "a query that is no token": ("ScanAndSnap", {"tokenProb": [[1]], "query": [0.5]}),
    "a weight of zero": ("ScanAndSnap", {"tokenProb": [[1]], "classWeight": [0]}),
    "a negative rate": ("ScanAndSnap", {"tokenProb": [[1]], "lrDecoder": -1}),
    "no rate": ("ScanAndSnap", {"tokenProb": [[1]], "lrDecoder": 0, "lrAttention": 0}),
    "an unknown optimiser": ("ScanAndSnap", {"tokenProb": [[1]], "optimiser": "lion"}),
    "a mixture in the reduced flow": (
        "ScanAndSnap",
        {"tokenProb": [[1, 0], [0, 1], [0.5, 0.5]], "optimiser": "reduced"},
    ),
    "a random start of the reduced flow": (
        "ScanAndSnap",
        {"tokenProb": [[1]], "optimiser": "reduced", "init": "uniform"},
    ),
    "a scale of zero": ("ScanAndSnap", {"tokenProb": [[1]], "init": "uniform", "initScale": 0}),
    "a start of the wrong shape": (
        "ScanAndSnap",
        {"tokenProb": [[1]], "start": {"decoder": [[1]], "attentionLogits": [[1]]}},
    ),
    "a single token": ("FocusAndDilution", {"stationary": [1]}),
    "no law": ("FocusAndDilution", {}),
    "a token that never comes": ("FocusAndDilution", {"stationary": [1, 0]}),
    "a stay of one": ("FocusAndDilution", {"stationary": [0.6, 0.4], "stay": 1}),
    "a stay far below zero": ("FocusAndDilution", {"stationary": [0.6, 0.4], "stay": -0.9}),
    "no width": ("FocusAndDilution", {"stationary": [0.6, 0.4], "dModel": 0}),
    "half a width": ("FocusAndDilution", {"stationary": [0.6, 0.4], "dModel": 2.5}),
    "a huge width": ("FocusAndDilution", {"stationary": [0.6, 0.4], "dModel": 1e9}),
    "a negative seed": ("FocusAndDilution", {"stationary": [0.6, 0.4], "seed": -1}),
    "a start without a projection": (
        "FocusAndDilution",
        {"stationary": [0.6, 0.4], "start": {"embedding": [[1], [1]]}},
    ),
    "a reduced flow of a chain": (
        "FocusAndDilution",
        {"stationary": [0.6, 0.4], "optimiser": "reduced"},
    ),
}
_REFUSED = """([model, settings]) => {
  try {
    ({ ScanAndSnap, FocusAndDilution })[model].create(settings);
  } catch (error) {
    return [error.constructor.name, error.message];
  }
  return ["nothing", ""];
}"""


@pytest.mark.parametrize("name", BAD)
def test_settings_that_cannot_be_used_are_refused_with_a_sentence(page, name):
    kind, message = page.evaluate(_REFUSED, BAD[name])
    assert kind == "Error"  # and no TypeError from deep inside
    assert message.endswith(".")
    assert message[0].isupper() or message.startswith("`")
    assert "undefined is not" not in message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "'1'", "null", "{}", "[1]"])
@pytest.mark.parametrize(
    "place", ["lrDecoder", "lrAttention", "stay", "dModel", "initScale", "seed", "logitScale"]
)
def test_numbers_that_are_none_are_refused_with_a_sentence(page, place, value):
    script = f"""() => {{ try {{ FocusAndDilution.create({{ stationary: [0.6, 0.4], {place}: {value} }}); }}
      catch (error) {{ return [error.constructor.name, error.message]; }} return ["nothing", ""]; }}"""
    kind, message = page.evaluate(script)
    if value == "null" and place == "dModel":
        assert kind == "nothing"  # null stands for the default there
    else:
        assert kind == "Error"
        assert place in message


@pytest.mark.parametrize("t", ["NaN", "-1", "'now'", "Infinity", "undefined"])
def test_a_time_that_is_none_is_refused(page, t):
    script = f"""() => {{
      const run = ScanAndSnap.create({{ tokenProb: [[1]] }});
      try {{ run.advance({t}); }} catch (error) {{ return error.message; }}
    }}"""
    assert "the time must be a number of at least 0" in page.evaluate(script)


def test_descent_at_a_rate_beyond_all_bounds_stops_and_says_so(page):
    script = """() => {
      const rates = { lrDecoder: 1e20, lrAttention: 1e20 };
      const run = FocusAndDilution.create({ stationary: [0.6, 0.4], optimiser: "sgd", initScale: 1, ...rates });
      run.advance(50);
      return [run.stopped, run.time, run.observe().loss];
    }"""
    stopped, time, loss = page.evaluate(script)
    assert "diverged" in stopped
    assert time < 50
    assert np.isfinite(loss)
