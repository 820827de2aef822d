"""The forecast as a user calls it: against training, in its files, and with input that cannot be
used.
"""

from __future__ import annotations

import json
import math
import re

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
from saccade.forecasting.sources import statistics
from saccade.forecasting.text_order import _tenths, agreement, text_order
from saccade.forecasting.text_predictions import first_change, moving, text_predictions
from saccade.records.store import load_record
from saccade.report.sources import results_of
from saccade.report.specs import figures
from saccade.theories import scan_and_snap as theory

STEPS = 60


@pytest.fixture(scope="module")
def small():
    return forecast(saccade.SequenceClasses.syn_small(), steps=STEPS)


@pytest.fixture(scope="module")
def trained():
    """Mini-batches with contexts of 511 tokens, long enough for the rarest token to be seen in
    each.
    """
    task = saccade.SequenceClasses.syn_small()
    run = saccade.train(
        task,
        steps=STEPS,
        batch=64,
        context=511,
        seeds=2,
        keep=("attention_logits",),
        save=[0, STEPS],
    )
    return run.attention_logits.isel(time=-1).values


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("query", [0, 1])
def test_distinct_tokens_gain_in_the_order_in_which_training_has_them(small, trained, seed, query):
    own = small.distinct.values[query] & (small.attention_start.values[query] > 0)
    predicted, measured = small.gain.values[query], trained[seed, query, :30]
    assert (
        spearmanr(predicted[own], measured[own]).statistic >= 0.98
    )  # what the replication finds for training
    moved = np.abs(measured) > 0.02
    assert (np.sign(predicted[moved]) == np.sign(measured[moved])).all()


def test_the_forecast_beats_the_naive_ones_on_attention_and_order(small, trained):
    prob = saccade.SequenceClasses.syn_small().token_prob
    weight = prob[0, :30] * np.exp(trained[0, 0, :30])
    measured = weight / weight.sum()
    known, unchanged = (
        np.abs(guess.values[0] - measured).sum()
        for guess in (small.attention_end, small.attention_start)
    )
    assert known < unchanged / 3
    frequent = prob.mean(axis=0)[:30]
    seen = small.attention_start.values[0] > 0
    gain = trained[0, 0, :30][seen]
    assert (
        spearmanr(small.gain.values[0][seen], gain).statistic
        > spearmanr(frequent[seen], gain).statistic
    )


def test_a_token_is_distinct_if_one_class_alone_has_it():
    table = np.array([[0.4, 0.2, 0.4, 0.0], [0.3, 0.1, 0.0, 0.6]])
    assert distinct_tokens(saccade.SequenceClasses(table), 4)[:4].tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_the_clock_says_which_times_lie_beyond_the_steps_of_the_forecast(small):
    snap = float(small.snap_time.values.max())
    said = {
        steps: _clock(forecast(saccade.SequenceClasses.syn_small(), steps=steps))
        for steps in (0.9 * snap, 1.1 * snap)
    }
    assert "steps of the forecast: snap of" in said[0.9 * snap]
    assert "steps of the forecast" not in said[1.1 * snap]


def _clock(record):
    return next(one.text for one in predictions(record) if one.about == "timing")


def test_the_clock_names_the_flow_whose_closed_form_it_is(small):
    said = told_of(small)["timing"]
    assert said.startswith("in the theory's own flow (C), which is not plain SGD, attention scans")


def test_statistics_that_are_counted_already_give_the_same_forecast(small):
    from saccade.forecasting.sources import Statistics

    counted = Statistics("counted", classes=saccade.SequenceClasses.syn_small())
    np.testing.assert_array_equal(forecast(counted, steps=STEPS).gain.values, small.gain.values)


def test_every_statement_names_its_method_its_source_and_its_assumptions(small):
    for said in predictions(small):
        assert all(
            (said.text, said.method, said.source.startswith("["), said.under_adam, said.assumptions)
        )
    unmet = {condition.name for said in predictions(small) for condition in said.unmet}
    assert (
        "Assumption 2, classes overlap little" in unmet
    )  # Syn-Small overlaps by .72 where 1/K = .5 is allowed


def test_the_names_of_times_stand_above_the_lines(small):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from saccade.forecasting.figure import figure

    drawn = figure(small)
    FigureCanvasAgg(drawn).draw()
    axes = drawn.axes[0]
    highest = max(
        axes.transData.transform(line.get_xydata())[:, 1].max()
        for line in axes.lines
        if len(line.get_xydata()) > 2
    )
    assert {name.get_text() for name in axes.texts} == {"scan (C) ends", "snap (C)"}
    assert all(name.get_window_extent().y0 > highest for name in axes.texts)


def test_the_folder_holds_record_table_page_and_figure(small, tmp_path):
    folder = write_forecast(small, tmp_path)
    assert folder == tmp_path / "forecast" / "syn-small"
    files = {
        "record.zarr",
        "about.json",
        "table.csv",
        "events.csv",
        "forecast.md",
        "figure.svg",
        "figure.png",
        "checksums.json",
    }
    assert {path.name for path in folder.iterdir()} == files
    again = load_record(folder / "record.zarr")
    np.testing.assert_array_equal(again.gain.values, small.gain.values)
    assert page(again) == page(small)
    assert len(table(small)) == 2 * (20 + 3)


def test_the_page_of_a_forecast_tells_its_sentences_attention_and_named_times(small, tmp_path):
    (result,) = results_of([write_forecast(small, tmp_path)])
    assert "nothing was trained" in result.about["statement"]
    assert result.about["caption"].count("\n") == len(told_of(small)) - 1
    assert [row["event"] for row in result.rows("events.csv")] == [
        *["scan (C) ends"] * 2,
        *["snap (C)"] * 2,
    ]
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
    """A text of seven words, drawn independently but that "hail" is followed by what stood three
    words before it.
    """
    folder, rng = tmp_path_factory.mktemp("weather"), np.random.default_rng(5)
    words = rng.choice(
        ["sun", "rain", "wind", "snow", "fog", "hail", "dew"],
        9000,
        p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05],
    )
    for i in range(4, len(words)):
        words[i] = words[i - 4] if words[i - 1] == "hail" else words[i]
    (folder / "weather.txt").write_text(
        "\n".join(" ".join(words[i : i + 50]) for i in range(0, len(words), 50))
    )
    return saccade.corpus(folder / "weather.txt", cache=folder / "cache")


@pytest.fixture(scope="module")
def windows(weather):
    return statistics(weather, window=5, n_windows=2000, n_tokens=500, n_chain=5).windows


@pytest.fixture(scope="module")
def told(weather):
    rates = {"lr_decoder": 0.5, "lr_attention": 0.5}
    return forecast(
        weather, queries=["hail", "sun"], window=5, n_windows=2000, n_chain=5, starts=1, **rates
    )


def test_a_text_is_forecast_from_its_windows_until_it_cannot_be_told(told, windows):
    """Against training without noise on the same windows, at the last steps told for size and for
    order.
    """
    sized, last = int(told.size_until), int(told.order_until)
    assert 1 < sized < last
    model = saccade.models.PairwiseText(
        windows, queries=["hail", "sun"], lr_decoder=0.5, lr_attention=0.5
    )
    run = saccade.train(
        model, steps=last, save=[sized, last], dtype="float64"
    ).attention_logits.values
    size = told.sel(time=told.size_until).gain_path.values
    assert np.linalg.norm(size - run[0]) / np.linalg.norm(run[0]) < 0.125
    own = told.told.values
    assert (
        np.mean(
            [
                spearmanr(a[k], b[k]).statistic
                for a, b, k in zip(told.gain.values, run[1], own, strict=True)
            ]
        )
        > 0.9
    )
    np.testing.assert_allclose(told.attention_path.values.sum(axis=-1), 1)


def test_a_faster_attention_shortens_what_can_be_told(told, weather):
    faster = forecast(
        weather,
        queries=["hail", "sun"],
        window=5,
        n_windows=2000,
        n_chain=5,
        starts=1,
        lr_decoder=0.5,
        lr_attention=5.0,
    )
    assert float(faster.size_until) < float(told.size_until)


def test_words_too_rare_to_tell_are_left_out(told, weather):
    rare = forecast(
        weather, queries=["hail"], window=5, n_windows=60, n_chain=5, starts=1, steps=10.0
    )
    assert rare.told.values.sum() < rare.seen.values.sum()
    said = next(one for one in predictions(rare) if one.topic == "trust")
    assert [condition.name for condition in said.unmet] == ["windows counted"]
    assert float(rare.time.values[-1]) == 10.0


def drawn_windows(next_follows):
    """Windows of evenly drawn tokens; the next one is drawn too, unless token `next_follows` stands
    in the window.
    """
    rng, n_windows, n_vocab = np.random.default_rng(5), 4000, 13
    counts = rng.multinomial(11, np.full(n_vocab, 1 / n_vocab), n_windows)
    query, following = rng.integers(0, n_vocab, (2, n_windows))
    if next_follows is not None:
        following = np.where(counts[:, next_follows] > 0, 7, following)
    even = np.full(n_windows, 1 / n_windows)
    return saccade.data.Windows(
        sparse.csr_array(counts, dtype=float),
        query,
        following,
        even,
        tuple("abcdefghijklm"),
        "drawn",
    )


def test_nothing_is_told_of_noise_and_a_word_that_matters_is_told():
    """Of 52 words in noise, two halves of the windows push 29 to the same side."""
    orders = {
        word: text_order(
            drawn_windows(word),
            queries=["a", "b", "c", "d"],
            lr_decoder=1.0,
            lr_attention=1.0,
            steps=2.0,
        )
        for word in (None, 3)
    }
    told = {word: order["told"][1] for word, order in orders.items()}
    assert not told[None].any()
    assert told[3][:, 3].all()


def test_where_nothing_can_be_told_no_step_is_promised(told):
    some, nothing = (
        text_predictions(record, 5.0)[0].text
        for record in (told, told.assign(told=told.told & False))
    )
    assert "says who gains" in some
    assert nothing.startswith("nothing can be told of single words")


def test_the_page_of_a_text_says_who_gains_who_loses_and_until_when(told):
    text = page(told)
    assert "how far this can be trusted" in text
    assert 'query "hail"' in text
    assert (
        "scan" not in text
    )  # the class theory's clock is about endless contexts, and not told of a text
    assert {row["kind"] for row in table(told) if row["part"] == "gain"} <= {
        "told",
        "cannot be told",
    }
    from saccade.forecasting.figure import figure

    assert len(figure(told).axes) == 3


def sentence(record, name):
    return next(one.text for one in predictions(record) if one.about == f'query "{name}"')


def turned_later(record):
    """The record with every change of attention turned round and trebled after the last step whose
    sizes are told.
    """
    path, late = record.attention_path, record.time > record.size_until
    return record.assign(attention_path=path.where(~late, path[0] - 3 * (path - path[0])))


def sizes_of(text):
    """Of each list of a sentence, the direction and the sign of the size printed for a word of it."""
    lists = {
        way: re.findall(r'"(\w+)"', found)
        for way, found in re.findall(r"(to|away from) ((?:\"\w+\"(?:, )?)+)", text)
    }
    sizes = {word: float(size) for size, word in re.findall(r'([+-][\d.e+-]+) % on "(\w+)"', text)}
    return [
        (way, np.sign(sizes[word]))
        for way, words in lists.items()
        for word in words
        if word in sizes
    ]


@pytest.mark.parametrize("change", [lambda record: record, turned_later])
def test_each_size_printed_has_the_sign_of_its_direction_and_words_that_turn_later_are_named(
    told, change
):
    record = change(told)
    for said in text_predictions(record, 5.0)[1:]:
        name = said.about.split('"')[1]
        query = record.sel(query=name)
        later, first = (
            query.attention_path.values[-1] - query.attention_path.values[0],
            first_change(query),
        )
        assert sorted(sizes_of(said.text)) == [("away from", -1.0), ("to", 1.0)]
        turned = int((query.told.values & (later * first < 0)).sum())
        assert ("this has turned for" in said.text) == bool(turned)
    assert change is not turned_later or turned == query.told.values.sum()


def test_a_word_first_moves_as_it_does_while_sizes_are_told_whatever_comes_later(told):
    for name in told["query"].values:
        one, other = (record.sel(query=name) for record in (told, turned_later(told)))
        assert [moving(one, up=up) for up in (True, False)] == [
            moving(other, up=up) for up in (True, False)
        ]


def test_many_words_counted_as_one_are_not_named_and_their_gain_is_said_where_it_is_large(weather):
    settings = {
        "queries": ["sun"],
        "window": 5,
        "n_windows": 2000,
        "n_chain": 5,
        "starts": 1,
        "steps": 30.0,
    }
    record = forecast(weather, n_tokens=3, **settings)
    assert "<other>" in record.token.values
    assert not record.told.sel(token="<other>").any()
    assert "<other>" not in {row["token"] for row in table(record) if row["part"] == "gain"}
    quiet, louder = (
        text_predictions(one, 5.0)[1].text
        for one in (record, record.assign(attention_path=_with_pool(record, 0.05)))
    )
    before = 100 * float(record.attention_path.sel(token="<other>")[0, 0])
    assert (
        f"; all rarer words together gain 5 % of all attention (they had {before:.2g} %)" in louder
    )
    assert "<other>" not in louder + quiet
    assert "all rarer" not in quiet


def _with_pool(record, gain):
    path, later = record.attention_path, record.time > 0
    return path.where(~later | (record.token != "<other>"), path[0] + gain)


def test_halves_agree_on_orders_as_two_forecasts_from_half_of_the_text_do(windows):
    settings = {"queries": ["hail", "sun"], "lr_decoder": 0.5, "lr_attention": 0.5, "steps": 30.0}
    place = np.argsort(np.argsort(windows.start))
    parts = [windows.part(place // 200 % 2 == side) for side in (0, 1)]
    whole, *half = (text_order(one, **settings) for one in (windows, *parts))
    assert all((one["time"] == whole["time"]).all() for one in half)
    sized, told = list(whole["time"]).index(whole["size_until"]), whole["told"][1]
    change, *others = (
        one["attention_path"][1][sized] - one["attention_path"][1][0] for one in (whole, *half)
    )
    gains = [one["gain"][1] for one in half]
    compared = 0
    for key, (one, other), among in (
        ("gain_agreement", gains, told),
        ("gaining_agreement", others, told & (change > 0)),
        ("losing_agreement", others, told & (change < 0)),
    ):
        for found, a, b, own in zip(whole[key][1], one, other, among, strict=True):
            if own.sum() > 2:
                assert found == pytest.approx(spearmanr(a[own], b[own]).statistic)
                compared += 1
    assert compared == 2
    assert (np.sign(others[0][told]) == np.sign(others[1][told])).all()


def test_two_words_are_in_one_order_or_in_the_other():
    one, other = np.array([[1.0, 3.0, 9.0]] * 2), np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0]])
    among = np.array([[True, True, False]] * 2)
    assert agreement([one, other], among).tolist() == [1.0, -1.0]
    assert np.isnan(agreement([one, other], among & [True, False, False])).all()


def test_an_order_on_which_halves_of_the_text_disagree_is_not_printed(told):
    unsure = told.assign(
        {
            name: told[name] * 0 + 0.2
            for name in ("gain_agreement", "gaining_agreement", "losing_agreement")
        }
    )
    query = unsure.sel(query="sun")
    (gaining,), losing = (moving(query, up=up) for up in (True, False))
    trust, said = (one.text for one in text_predictions(unsure, 5.0) if "hail" not in one.about)
    enough = f"{4 * int(told.n_windows):,} windows would do"  # 0.2 becomes 0.5 with four times the sample [Spearman, Brown]
    assert f"away from {len(losing)} words whose order cannot be told at this size" in said
    assert enough in said
    assert not any(f'"{unsure.token.values[i]}"' in said for i in losing)
    assert (
        said.count(f'"{unsure.token.values[gaining]}"') == 2
    )  # a single word has no order: it and its size are told
    assert "ranks are left out, for 2 of 2 queries" in trust
    assert {row["rank"] for row in table(unsure) if row["part"] == "gain"} == {""}
    assert {row["rank"] for row in table(told) if row["part"] == "gain"} > {1, 2, 3}


def test_a_forecast_says_beside_each_order_how_far_halves_of_the_text_agree_on_it(told):
    for name in told["query"].values:
        query, text = told.sel(query=name), sentence(told, name)
        for up, agreed in ((True, query.gaining_agreement), (False, query.losing_agreement)):
            if len(moving(query, up=up)) > 1:
                assert f"agree on the order at {float(agreed):.2f}" in text


def test_the_decoders_own_clock_is_told_beside_the_step_until_which_the_forecast_is_trusted(
    told, windows
):
    force = theory.first_force(windows.counts, windows.query, windows.next_token)
    rows = [windows.token_names.index(name) for name in ("hail", "sun")]
    clock = theory.first_force_clock(force, lr_decoder=0.5, queries=rows)
    assert float(told.clock) == pytest.approx(clock)
    trust = predictions(told)[0].text
    assert f"is off by as much at step {clock:.2g}" in trust
    assert f"by how much until step {float(told.size_until):.3g}" in trust


def test_tenths_of_a_text_are_stretches_of_it_so_that_windows_that_overlap_stay_together(windows):
    assert np.median(np.diff(np.sort(windows.start))) < 7  # they overlap
    tenth = _tenths(windows)[np.argsort(windows.start)]
    assert (np.diff(tenth) >= 0).all()
    np.testing.assert_allclose(np.bincount(tenth), len(tenth) / 10, atol=1)


def test_a_fast_decoder_is_followed_in_steps_of_descent_and_a_slow_one_in_longer_ones():
    fast, slow = (
        text_order(drawn_windows(3), queries=["a"], lr_decoder=rate, lr_attention=1e-3, steps=11.0)[
            "time"
        ]
        for rate in (10.0, 0.1)
    )
    np.testing.assert_array_equal(fast, np.arange(12))
    np.testing.assert_allclose(slow, [0, 5, 10, 11])


def test_a_query_that_cannot_be_one_is_refused_with_what_would_help(weather):
    settings = {"window": 5, "n_chain": 5, "starts": 1}
    with pytest.raises(
        InputError, match=r"'rains' is not in the text weather\. Did you mean 'rain'"
    ):
        forecast(weather, queries=["rains"], **settings)
    with pytest.raises(InputError, match=r"'dew' is too rare to be .*`n_tokens` \(`--n-tokens`\)"):
        forecast(weather, queries=["dew"], n_tokens=3, **settings)
    with pytest.raises(
        InputError, match=r"'dew' is too rare to be .*`n_windows` \(`--n-windows`\)"
    ):
        forecast(weather, queries=["dew"], n_windows=1, **settings)


def test_a_query_among_the_words_that_a_small_vocabulary_lost_is_told_apart_from_one_that_is_not_there(
    tmp_path,
):
    (tmp_path / "text.txt").write_text("a b c a b a " * 50 + "d ")
    small = saccade.corpus(tmp_path / "text.txt", n_vocab=3, cache=tmp_path / "cache")
    with pytest.raises(InputError, match="or only among the rare words that became one"):
        forecast(small, queries=["c"], window=2, n_chain=3, starts=1)


def test_the_page_warns_that_its_two_models_may_move_attention_in_opposite_directions(told, small):
    assert "attention may move in opposite directions" in page(told)
    assert "opposite" not in page(small)


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
    assert {said["topic"] for said in answer["predictions"]} == {
        "order of distinct tokens",
        "tokens that lose attention",
        "timing",
    }
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


@pytest.mark.parametrize("queries", ["rain", [1.5], [None], [True], [], ["rain", "rain"]])
def test_queries_that_are_no_words_are_refused_in_a_sentence(weather, queries):
    with pytest.raises(InputError, match="`queries` must"):
        forecast(weather, queries=queries)


def test_ids_of_numpy_are_queries_too(weather):
    word = weather.vocabulary.index(
        str(
            forecast(weather, queries=1, window=5, n_windows=2000, n_chain=5, starts=1)[
                "query"
            ].values[0]
        )
    )
    assert (
        forecast(
            weather, queries=[np.int64(word)], window=5, n_windows=2000, n_chain=5, starts=1
        ).sizes["query"]
        == 1
    )


def test_rates_that_leave_no_numbers_are_not_trusted(weather):
    wild = forecast(
        weather,
        queries=2,
        lr_decoder=10.0,
        lr_attention=3e4,
        window=5,
        n_windows=2000,
        n_chain=5,
        starts=1,
    )
    assert np.isfinite(wild.gain_path).all()
    assert "nan" not in page(wild)


def test_too_many_classes_for_a_forecast_are_refused_with_their_size():
    many = saccade.SequenceClasses(np.full((3200, 2), 0.5))
    with pytest.raises(InputError, match=r"3,200 classes over 3,203 tokens .* takes 0\.1 GB"):
        forecast(many)
