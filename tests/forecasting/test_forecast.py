"""The forecast as a user calls it: against training, in its files, and with input that cannot be used."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import spearmanr

import saccade
from saccade.errors import InputError
from saccade.forecasting.attention_order import distinct_tokens
from saccade.forecasting.files import write_forecast
from saccade.forecasting.forecast import forecast, predictions
from saccade.forecasting.page import page, table
from saccade.forecasting.page import told as told_of
from saccade.forecasting.text_order import text_order
from saccade.records.store import load_record
from saccade.report.sources import results_of
from saccade.report.specs import figures

STEPS = 60


@pytest.fixture(scope="module")
def small():
    return forecast(saccade.SequenceClasses.syn_small(), steps=STEPS)


@pytest.fixture(scope="module")
def trained():
    """Mini-batches with contexts of 511 tokens, long enough for the rarest token to be seen in each."""
    task = saccade.SequenceClasses.syn_small()
    run = saccade.train(task, steps=STEPS, batch=64, context=511, seeds=2, keep=("attention_logits",), save=[0, STEPS])
    return run.attention_logits.isel(time=-1).values


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("query", [0, 1])
def test_distinct_tokens_gain_in_the_order_in_which_training_has_them(small, trained, seed, query):
    own = small.distinct.values[query] & (small.attention_start.values[query] > 0)
    predicted, measured = small.gain.values[query], trained[seed, query, :30]
    assert spearmanr(predicted[own], measured[own]).statistic >= 0.98  # what the replication finds for training
    moved = np.abs(measured) > 0.02
    assert (np.sign(predicted[moved]) == np.sign(measured[moved])).all()


def test_the_forecast_beats_the_naive_ones_on_attention_and_order(small, trained):
    prob = saccade.SequenceClasses.syn_small().token_prob
    weight = prob[0, :30] * np.exp(trained[0, 0, :30])
    measured = weight / weight.sum()
    known, unchanged = (np.abs(guess.values[0] - measured).sum() for guess in (small.attention_end, small.attention_start))
    assert known < unchanged / 3
    frequent = prob.mean(axis=0)[:30]
    seen = small.attention_start.values[0] > 0
    gain = trained[0, 0, :30][seen]
    assert spearmanr(small.gain.values[0][seen], gain).statistic > spearmanr(frequent[seen], gain).statistic


def test_a_token_is_distinct_if_one_class_alone_has_it():
    table = np.array([[0.4, 0.2, 0.4, 0.0], [0.3, 0.1, 0.0, 0.6]])
    assert distinct_tokens(saccade.SequenceClasses(table), 4)[:4].tolist() == [False, False, True, True]


def test_the_clock_says_which_times_lie_beyond_the_steps_of_the_forecast(small):
    snap = float(small.snap_time.values.max())
    said = {steps: _clock(forecast(saccade.SequenceClasses.syn_small(), steps=steps)) for steps in (0.9 * snap, 1.1 * snap)}
    assert "steps of the forecast: snap of" in said[0.9 * snap]
    assert "steps of the forecast" not in said[1.1 * snap]


def _clock(record):
    return next(one.text for one in predictions(record) if one.about == "timing")


def test_statistics_that_are_counted_already_give_the_same_forecast(small):
    from saccade.forecasting.sources import Statistics

    counted = Statistics("counted", classes=saccade.SequenceClasses.syn_small())
    np.testing.assert_array_equal(forecast(counted, steps=STEPS).gain.values, small.gain.values)


def test_every_statement_names_its_method_its_source_and_its_assumptions(small):
    for said in predictions(small):
        assert all((said.text, said.method, said.source.startswith("["), said.under_adam, said.assumptions))
    unmet = {condition.name for said in predictions(small) for condition in said.unmet}
    assert "Assumption 2, classes overlap little" in unmet  # Syn-Small overlaps by .72 where 1/K = .5 is allowed


def test_the_names_of_times_stand_above_the_lines(small):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from saccade.forecasting.figure import figure

    drawn = figure(small)
    FigureCanvasAgg(drawn).draw()
    axes = drawn.axes[0]
    highest = max(axes.transData.transform(line.get_xydata())[:, 1].max() for line in axes.lines if len(line.get_xydata()) > 2)
    assert {name.get_text() for name in axes.texts} == {"scanning ends", "snap"}
    assert all(name.get_window_extent().y0 > highest for name in axes.texts)


def test_the_folder_holds_record_table_page_and_figure(small, tmp_path):
    folder = write_forecast(small, tmp_path)
    assert folder == tmp_path / "forecast" / "syn-small"
    files = {"record.zarr", "about.json", "table.csv", "events.csv", "forecast.md", "figure.svg", "figure.png", "checksums.json"}
    assert {path.name for path in folder.iterdir()} == files
    again = load_record(folder / "record.zarr")
    np.testing.assert_array_equal(again.gain.values, small.gain.values)
    assert page(again) == page(small)
    assert len(table(small)) == 2 * (20 + 3)


def test_the_page_of_a_forecast_tells_its_sentences_attention_and_named_times(small, tmp_path):
    (result,) = results_of([write_forecast(small, tmp_path)])
    assert "nothing was trained" in result.about["statement"]
    assert result.about["caption"].count("\n") == len(told_of(small)) - 1
    assert [row["event"] for row in result.rows("events.csv")] == ["scanning ends"] * 2 + ["snap"] * 2
    (shown,) = figures(result.record)
    assert shown["title"].startswith("Predicted attention of the query on each token")
    np.testing.assert_allclose(shown["values"].sum(axis=-1), 1.0)
    np.testing.assert_array_equal(shown["values"][-1], small.attention_end.values)


def test_a_csv_file_of_classes_or_of_a_chain_will_do(tmp_path):
    classes, chain = tmp_path / "classes.csv", tmp_path / "weather.csv"
    classes.write_text("class,query,a,b,c\nx,q,0.5,0.5,\ny,q,0.5,,0.5\n")
    chain.write_text(",sun,rain\nsun,0.9,0.1\nrain,0.5,0.5\n")
    gains = forecast(classes, steps=20)
    assert gains["query"].values.tolist() == ["q"]
    assert gains.gain.values[0, 0] < 0 < gains.gain.values[0, 1:].min()
    assert forecast(str(chain), starts=1).word.values.tolist() == ["sun", "rain"]


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    """A text of seven words, drawn independently but that "hail" is followed by what stood three words before it."""
    folder, rng = tmp_path_factory.mktemp("weather"), np.random.default_rng(5)
    words = rng.choice(["sun", "rain", "wind", "snow", "fog", "hail", "dew"], 9000, p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05])
    for i in range(4, len(words)):
        words[i] = words[i - 4] if words[i - 1] == "hail" else words[i]
    (folder / "weather.txt").write_text("\n".join(" ".join(words[i : i + 50]) for i in range(0, len(words), 50)))
    return saccade.corpus(folder / "weather.txt", cache=folder / "cache")


@pytest.fixture(scope="module")
def told(weather):
    rates = {"lr_decoder": 0.5, "lr_attention": 0.5}
    return forecast(weather, queries=["hail", "sun"], window=5, n_windows=2000, n_chain=5, starts=1, **rates)


def test_a_text_is_forecast_from_its_windows_until_it_cannot_be_told(told, weather):
    """Against training without noise on the same windows, at the last steps told for size and for order."""
    from saccade.forecasting.sources import statistics

    windows = statistics(weather, window=5, n_windows=2000, n_tokens=500, n_chain=5).windows
    sized, last = int(told.size_until), int(told.order_until)
    assert 1 < sized < last
    model = saccade.PairwiseText(windows, queries=["hail", "sun"], lr_decoder=0.5, lr_attention=0.5)
    run = saccade.train(model, steps=last, save=[sized, last], dtype="float64").attention_logits.values
    size = told.sel(time=told.size_until).gain_path.values
    assert np.linalg.norm(size - run[0]) / np.linalg.norm(run[0]) < 0.125
    own = told.told.values
    assert np.mean([spearmanr(a[k], b[k]).statistic for a, b, k in zip(told.gain.values, run[1], own, strict=True)]) > 0.9
    np.testing.assert_allclose(told.attention_path.values.sum(axis=-1), 1)


def test_a_faster_attention_shortens_what_can_be_told(told, weather):
    faster = forecast(
        weather, queries=["hail", "sun"], window=5, n_windows=2000, n_chain=5, starts=1, lr_decoder=0.5, lr_attention=5.0
    )
    assert float(faster.size_until) < float(told.size_until)


def test_words_too_rare_to_tell_are_left_out(told, weather):
    rare = forecast(weather, queries=["hail"], window=5, n_windows=60, n_chain=5, starts=1, steps=10.0)
    assert rare.told.values.sum() < rare.seen.values.sum()
    said = next(one for one in predictions(rare) if one.topic == "trust")
    assert [condition.name for condition in said.unmet] == ["windows counted"]
    assert float(rare.time.values[-1]) == 10.0


def drawn_windows(next_follows: int | None) -> saccade.Windows:
    """Windows of evenly drawn tokens; the next one is drawn too, unless token `next_follows` stands in the window."""
    rng, n_windows, n_vocab = np.random.default_rng(5), 4000, 13
    counts = rng.multinomial(11, np.full(n_vocab, 1 / n_vocab), n_windows)
    query, following = rng.integers(0, n_vocab, (2, n_windows))
    if next_follows is not None:
        following = np.where(counts[:, next_follows] > 0, 7, following)
    even = np.full(n_windows, 1 / n_windows)
    return saccade.Windows(sparse.csr_array(counts, dtype=float), query, following, even, tuple("abcdefghijklm"), "drawn")


def test_nothing_is_told_of_noise_and_a_word_that_matters_is_told():
    """Of 52 words in noise, two halves of the windows push 29 to the same side."""
    orders = {
        word: text_order(drawn_windows(word), queries=["a", "b", "c", "d"], lr_decoder=1.0, lr_attention=1.0, steps=2.0)
        for word in (None, 3)
    }
    told = {word: order["told"][1] for word, order in orders.items()}
    assert not told[None].any()
    assert told[3][:, 3].all()


def test_the_page_of_a_text_says_who_gains_who_loses_and_until_when(told):
    text = page(told)
    assert "how far this can be trusted" in text
    assert 'query "hail"' in text
    assert "scan" not in text  # the class theory's clock is about endless contexts, and not told of a text
    assert {row["kind"] for row in table(told) if row["part"] == "gain"} <= {"told", "cannot be told"}
    from saccade.forecasting.figure import figure

    assert len(figure(told).axes) == 3


def test_a_query_that_is_in_no_window_is_refused(weather):
    with pytest.raises(InputError, match="not the query of any window"):
        forecast(weather, queries=["frost"], window=5, n_windows=200, n_chain=5, starts=1)


def test_the_command_prints_the_page_and_answers_in_json(tmp_path, capsys):
    from saccade.forecasting.command import OPTIONS, answered, forecast_of
    from saccade.terminal import JSON, flags

    source = tmp_path / "classes.csv"
    source.write_text("class,query,a,b,c\nx,q,0.5,0.5,\ny,q,0.5,,0.5\n")
    arguments = [str(source), "--steps", "20", "--out", str(tmp_path), "--json"]
    options = flags(arguments, "", "saccade forecast sotu", **OPTIONS, json=JSON)
    record = forecast_of(options, lambda fraction: None)
    assert answered(record, options) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {said["topic"] for said in answer["predictions"]} == {"order of distinct tokens", "tokens that lose attention", "timing"}
    options.json = False
    assert answered(record, options) == 0
    assert "# What will happen: classes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "settings", "said"),
    [
        (3, {}, "source"),
        ("zipf", {"lr_decoder": 0.0}, "lr_decoder"),
        ("zipf", {"lr_attention": math.nan}, "lr_attention"),
        ("zipf", {"init_scale": -1.0}, "init_scale"),
        ("zipf", {"steps": 0}, "steps"),
        ("zipf", {"starts": 0}, "starts"),
        ("zipf", {"model": 3}, "model"),
        ("missing.csv", {}, "missing.csv"),
    ],
)
def test_input_that_cannot_be_used_gets_a_sentence(source, settings, said):
    given = saccade.MarkovChain.zipf(3) if source == "zipf" else source
    with pytest.raises(InputError, match=said):
        forecast(given, **settings)
