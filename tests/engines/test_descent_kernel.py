"""Training in C: the same numbers as the compiled scan, the same bits however it is spread, and no
harm where it was not built.
"""

from __future__ import annotations

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

from saccade.data.sequence_classes import SequenceClasses
from saccade.engines import descent_kernel, descent_scan
from saccade.engines.batches import draw
from saccade.models.pairwise import Pairwise
from saccade.runs import train

SMALL = {
    "steps": 23,
    "batch": 17,
    "context": 29,
    "save": [0, 7, 23],
    "keep": ("attention", "attention_logits", "decoder"),
}


@pytest.fixture(scope="module", autouse=True)
def kernel(built):
    with built(descent_kernel):
        yield


def both(task: SequenceClasses, **settings) -> tuple:
    """Records of the kernel and of the scan."""
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        for engine in (descent_kernel, descent_scan):
            run = engine.descend
            patch.setattr(
                engine,
                "descend",
                lambda *given, run=run, engine=engine: (taken.append(engine), run(*given))[1],
            )
        fast = train(task, **settings)
        patch.setattr(descent_kernel, "_library", lambda: None)
        slow = train(task, **settings)
    assert taken == [descent_kernel, descent_scan]
    return fast, slow


def assert_close(fast, slow, atol=1e-5):
    for name in ("loss", "attention", "attention_logits", "decoder"):
        np.testing.assert_allclose(
            fast[name].values, slow[name].values, atol=atol, rtol=1e-5, err_msg=name
        )
    assert (fast.stop_reason == slow.stop_reason).all()
    assert (fast.stop_time == slow.stop_time).all()


UNEQUAL = (
    SequenceClasses(  # one to four tokens of their own, one query for two of them, unequal shares
        [
            [0.2, 0.1, 0.7, 0, 0, 0, 0, 0, 0],
            [0.3, 0, 0, 0.1, 0.2, 0.3, 0.1, 0, 0],
            [0, 0.5, 0, 0, 0, 0, 0, 0.4, 0.1],
        ],
        query=[9, 9, 10],
        class_weight=[0.6, 0.3, 0.1],
    )
)
CASES = {
    "momentum, uniform start, many rates": (
        SequenceClasses.syn_medium(3),
        {
            "momentum": 0.9,
            "lr_decoder": [2.0, 30.0],
            "lr_attention": [1.0, 3.0],
            "seeds": [3, 5],
            "model": Pairwise(init="uniform"),
        },
    ),
    "no momentum, zero start: columns stand for many tokens": (
        SequenceClasses.syn_small(),
        {"lr_decoder": 3.0},
    ),
    "own classes": (UNEQUAL, {"momentum": 0.5, "lr_decoder": 2.0, "lr_attention": 0.7}),
    "own classes, other start": (
        UNEQUAL,
        {"momentum": 0.5, "model": Pairwise(init="uniform", init_scale=2.0)},
    ),
    "query among the keys": (UNEQUAL, {"model": Pairwise(query_key=True), "lr_attention": 2.0}),
    "infinite contexts": (UNEQUAL, {"context": math.inf, "momentum": 0.9}),
    "population": (
        UNEQUAL,
        {"context": math.inf, "batch": math.inf, "momentum": 0.9, "lr_decoder": 5.0},
    ),
    "more classes than contexts": (SequenceClasses.syn_medium(11), {"momentum": 0.9, "batch": 7}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_in_c_agrees_with_the_compiled_scan(case):
    task, settings = CASES[case]
    fast, slow = both(task, **SMALL | settings)
    assert_close(fast, slow)
    moved = np.abs(np.diff(slow.attention_logits.values, axis=-3)).max()
    assert moved > 1e-3  # else agreement says nothing


def test_contexts_without_the_tokens_that_are_sought_most_keep_all_digits():
    """A token sought e^300 times as much as the others would hide them: most contexts do not have
    it.
    """
    decoder = np.random.default_rng(3).normal(size=(UNEQUAL.n_vocab, UNEQUAL.n_vocab))
    logits = np.zeros((2, UNEQUAL.n_vocab))
    logits[0, 3] = 300.0
    fast, slow = both(
        UNEQUAL, **SMALL | {"context": 3, "start": {"decoder": decoder, "attention_logits": logits}}
    )
    assert_close(fast, slow)


@pytest.mark.parametrize("context", [1, 29, 127, 400])
@pytest.mark.parametrize(
    "task",
    [UNEQUAL, SequenceClasses.syn_medium(3), SequenceClasses.syn_small()],
    ids=lambda task: task.name,
)
def test_contexts_are_the_same_to_the_last_count_whoever_draws_them(task, context):
    """With 400 tokens some counts have means over 30, which are left to NumPy in the middle of a
    stretch.
    """
    blocks, steps = Pairwise().blocks(task), range(5, 42)
    plan = SimpleNamespace(task=task, batch=13, context=context)
    wanted = draw(task, blocks, 2**63 - 11, steps, 13, context)
    classes, counts = descent_kernel._drawn(plan, blocks, 2**63 - 11, steps)
    np.testing.assert_array_equal(classes, wanted.classes)
    np.testing.assert_array_equal(counts[..., : wanted.counts.shape[-1]], wanted.counts)
    assert not counts[..., wanted.counts.shape[-1] :].any()


def test_a_start_in_another_order_of_memory_is_read_rightly():
    """Also of a task whose table of probabilities was given column by column."""
    given = SequenceClasses(
        np.asarray(UNEQUAL.token_prob, order="F"),
        query=UNEQUAL.query,
        next_token=UNEQUAL.next_token,
    )
    assert np.isfinite(train(given, **SMALL).loss).all()
    start = {"decoder": np.random.default_rng(5).normal(size=(UNEQUAL.n_vocab,) * 2)}
    rows, columns = (
        train(UNEQUAL, **SMALL, start={"decoder": np.asarray(start["decoder"], order=o)})
        for o in ("C", "F")
    )
    np.testing.assert_array_equal(rows.decoder.values, columns.decoder.values)


def test_both_engines_call_the_same_runs_diverged_and_at_the_same_step():
    rates = [1.0, 1e5, 1e9, 1e30]
    settings = SMALL | {
        "save": "linear",
        "momentum": 0.9,
        "lr_decoder": rates,
        "lr_attention": rates,
        "keep": ("attention",),
    }
    fast, slow = both(SequenceClasses.syn_small(), **settings)
    assert fast.stop_reason.values[:, 0].tolist() == [
        "finished",
        "diverged",
        "diverged",
        "diverged",
    ]
    assert (fast.stop_time == slow.stop_time).all()
    np.testing.assert_allclose(fast.loss.values, slow.loss.values, rtol=1e-5)


def test_progress_is_told_after_every_run_and_ends_at_one():
    told: list[float] = []
    train(
        SequenceClasses.syn_medium(1),
        **SMALL,
        lr_decoder=[0.5, 2.0],
        seeds=3,
        on_progress=told.append,
    )
    np.testing.assert_allclose(told, np.linspace(0, 1, 7)[1:])


def test_bits_depend_neither_on_threads_nor_on_stretches_nor_on_what_else_is_trained(monkeypatch):
    task, model = SequenceClasses.syn_medium(2), Pairwise(init="uniform")
    settings = SMALL | {"momentum": 0.9, "model": model, "lr_attention": 3.0}
    among = train(task, **settings, lr_decoder=[0.5, 2.0, 6.0], seeds=5)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(descent_scan, "_STEPS_AT_ONCE", 5)
    alone = train(task, **settings, lr_decoder=2.0, seeds=[3])
    for name in ("loss", "attention_logits", "decoder"):
        np.testing.assert_array_equal(
            among[name].isel(rate=1).sel(seed=3).values, alone[name].sel(seed=3).values
        )


@pytest.mark.parametrize(
    "other",
    [
        {"optimiser": "adam"},
        {"dtype": "float64"},
        {"model": Pairwise(residual=True)},
        {"model": Pairwise(normalise=False)},
    ],
)
def test_what_the_kernel_does_not_do_is_left_to_the_scan(other, monkeypatch):
    monkeypatch.setattr(
        descent_kernel, "descend", lambda *given: pytest.fail("the kernel was asked")
    )
    assert np.isfinite(train(UNEQUAL, steps=2, **other).loss).all()


@pytest.mark.parametrize("there", ["nothing", "no library", "a library of another source"])
def test_without_a_library_of_this_source_training_goes_on(there, monkeypatch, tmp_path):
    if there == "a library of another source":
        source = tmp_path / "newer.c"
        source.write_bytes(descent_kernel.SOURCE.read_bytes() + b"/* newer */")
        monkeypatch.setattr(descent_kernel, "SOURCE", source)
    else:
        monkeypatch.setattr(descent_kernel, "LIBRARY", tmp_path / "libdescent.so")
    if there == "no library":
        descent_kernel.LIBRARY.write_text("not one")
    monkeypatch.setattr(descent_kernel, "_library", descent_kernel._library.__wrapped__)
    assert descent_kernel._library() is None
    assert np.isfinite(train(UNEQUAL, steps=2).loss).all()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", "no source"])
def test_a_build_that_fails_says_one_line_and_leaves_nothing_behind(
    compiler, hook, monkeypatch, tmp_path, capfd
):
    source = tmp_path / "source.c"
    source.write_text("int" if compiler == "no source" else "int x;")
    if compiler != "no source":
        monkeypatch.setenv("CC", compiler)
    (tmp_path / "lib").mkdir()
    assert not hook.compiled(source, tmp_path / "lib" / "libdescent.so")
    said = capfd.readouterr()
    assert said.err.startswith("saccade is installed without its C code")
    assert len(said.err.splitlines()) == 1
    assert not said.out
    assert not list((tmp_path / "lib").iterdir())
