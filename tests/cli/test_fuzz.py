"""Whatever is typed, it works or it is refused with a sentence: an `InputError`, or exit code 2.
Never anything else.

Sizes are small and few, so that the time goes into inputs and not into compilation.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

from saccade import InputError, SequenceClasses, flow, train
from saccade import cli as command_line
from saccade.data.class_tables import rows_from_csv
from saccade.models import Pairwise
from tests.cli.calls import QUICK

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [
            math.nan,
            math.inf,
            -math.inf,
            -1,
            -0.5,
            0,
            0.5,
            1e300,
            10**400,
            -(10**400),
            1j,
            Fraction(1, 3),
        ]
    ),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(
        [
            [],
            (),
            {},
            [None],
            ["a"],
            [[1], [1, 2]],
            {"a": 1},
            {1},
            np.array([1.0, 2.0]),
            np.array("x"),
            object,
        ]
    ),
)
CELL = st.one_of(
    st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3), st.just(10**400)
)
PROBABILITY = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(min_value=0)
)
# Not arbitrary integers: an id of a thousand million is a legal way to ask for a vocabulary of as
# many.
TOKEN_ID = st.one_of(
    st.integers(-2, 31),
    st.floats(-1, 31),
    st.just(2**40),
    CELL.filter(lambda cell: not isinstance(cell, int)),
)


def rows_of(cell: st.SearchStrategy) -> st.SearchStrategy:
    return st.integers(0, 4).flatmap(
        lambda width: st.lists(st.lists(cell, min_size=width, max_size=width), max_size=4)
    )


TABLES_OF_NUMBERS = st.one_of(
    rows_of(PROBABILITY),
    rows_of(CELL),
    st.lists(st.lists(CELL, max_size=3), max_size=3),  # ragged
    stnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.bool_, np.complex128, "U3"]),
        stnp.array_shapes(max_side=3),
    ),
    JUNK,
)


def unless_refused(call: Callable[[], Any]) -> Any:
    """What `call` makes, or None if it is refused with a sentence."""
    try:
        return call()
    except InputError as error:
        refusal = str(error)
    assert refusal.endswith(".")
    return None


@st.composite
def class_arguments(draw) -> dict:
    """Arguments of one to three classes that would do, with up to two of them replaced by anything."""
    n_classes = draw(st.integers(1, 3))

    def each(values):
        return st.lists(values, min_size=n_classes, max_size=n_classes)

    arguments = {
        "token_prob": draw(
            st.one_of(
                each(st.just([0.25, 0.75])), each(st.lists(PROBABILITY, min_size=2, max_size=2))
            )
        ),
        "query": draw(st.one_of(st.none(), each(st.integers(0, 7)), each(TOKEN_ID))),
        "next_token": draw(st.one_of(st.none(), st.just([11, 5, 7][:n_classes]), each(TOKEN_ID))),
        "class_weight": draw(st.one_of(st.none(), each(st.floats(min_value=0)))),
        "n_vocab": draw(st.sampled_from([None, None, 13, 41])),
        "token_names": (),
        "normalise": draw(st.booleans()),
    }
    anything = {
        "token_prob": TABLES_OF_NUMBERS,
        "query": st.one_of(st.lists(TOKEN_ID, max_size=4), JUNK),
        "next_token": st.one_of(st.lists(TOKEN_ID, max_size=4), JUNK),
        "class_weight": st.one_of(each(CELL), JUNK),
        "n_vocab": st.one_of(
            st.integers(-2, 50), JUNK.filter(lambda value: not isinstance(value, float))
        ),
        "token_names": st.one_of(st.lists(st.text(max_size=2), max_size=7), JUNK),
        "normalise": st.just(True),
    }
    return arguments | {
        name: draw(anything[name])
        for name in draw(st.lists(st.sampled_from(sorted(anything)), max_size=2))
    }


@given(arguments=class_arguments())
@example(arguments={"token_prob": [[1e308, 1e308]], "normalise": True})
@example(arguments={"token_prob": [[1.0], [1.0]], "class_weight": [1e308, 1e308]})
@example(arguments={"token_prob": [[1.0], [1.0]], "class_weight": [5e-324, 1e10]})
@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
def test_classes_from_any_arguments_are_classes_or_an_input_error(arguments):
    task = unless_refused(lambda: SequenceClasses(**arguments))
    if task is None:
        return
    assert task.token_prob.shape == (task.n_classes, task.n_vocab)
    assert task.token_prob.min() >= 0
    assert task.token_prob.sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert task.class_weight.min() > 0
    assert task.class_weight.sum() == pytest.approx(1, rel=1e-12)
    assert min(task.query.min(), task.next_token.min()) >= 0
    assert max(task.query.max(), task.next_token.max()) < task.n_vocab == len(task.labels)


COLUMN = st.one_of(
    st.sampled_from(["class", "query", "weight", "a", "b", " a", ""]),
    st.text(max_size=2),
    st.integers(0, 2),
)
ROW_CELL = st.one_of(
    PROBABILITY, st.sampled_from(["", "0.5", "x", "q", " ", "nan", "1e999"]), CELL, JUNK
)


@given(
    rows=st.one_of(st.lists(st.dictionaries(COLUMN, ROW_CELL, max_size=5), max_size=4), JUNK),
    normalise=st.booleans(),
)
@settings(max_examples=500)
def test_any_rows_are_a_table_of_classes_or_an_input_error(rows, normalise):
    task = unless_refused(lambda: SequenceClasses.from_table(rows, normalise=normalise))
    if task is None:
        return
    assert [task.labels[token] for token in task.next_token] == [
        str(row["class"]).strip() for row in rows
    ]
    assert len(set(task.labels)) == task.n_vocab


CSV_CELL = st.sampled_from(
    ["class", "query", "weight", "a", "b", "x", "0.5", "1", "", " ", '"', "nan", "é", "\0", "-1"]
)
CSV_TEXT = st.lists(st.lists(CSV_CELL, max_size=4).map(",".join), max_size=4).map("\n".join)
HEADER = b"class,a,b\n"


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "classes.csv"


@given(
    content=st.one_of(
        st.text().map(str.encode),
        st.binary(),
        CSV_TEXT.map(str.encode),
        CSV_TEXT.map(lambda text: HEADER + text.encode()),
        st.binary(max_size=9).map(lambda tail: HEADER + b"x,1," + tail),
    ),
    normalise=st.booleans(),
)
@example(content=b"", normalise=False)
@settings(max_examples=500)
def test_any_file_is_a_table_of_classes_or_an_input_error(csv_file, content, normalise):
    csv_file.write_bytes(content)
    task = unless_refused(lambda: SequenceClasses.from_csv(csv_file, normalise=normalise))
    if task is None:
        return
    assert task.n_classes == len(rows_from_csv(csv_file))


TASK = SequenceClasses([[0.5, 0.5, 0], [0, 0.25, 0.75]])
RATE = st.one_of(
    st.floats(), st.floats(0, 1e30), st.lists(st.floats(0, 10), min_size=2, max_size=2)
)
VALID = {
    "steps": st.sampled_from([0, 2]),
    "lr_decoder": RATE,
    "lr_attention": RATE,
    "optimiser": st.sampled_from(["sgd", "sgd", "adam"]),
    "momentum": st.sampled_from([0, 0.9]),
    "batch": st.sampled_from([1, math.inf]),
    "context": st.sampled_from([1, 5, 10**12, math.inf]),
    "seeds": st.sampled_from([1, [7]]),
    "save": st.sampled_from(["log", "linear", [0], [0, 2]]),
    "keep": st.lists(st.sampled_from(["attention", "attention_logits", "decoder"]), max_size=3),
    "dtype": st.sampled_from(["float32", "float64"]),
    "model": st.sampled_from([None, Pairwise()]),
}
MISSPELT = st.sampled_from(
    [
        "SGD",
        "float16",
        "logs",
        "linera",
        "Attention",
        ["attention", "atention"],
        [0, 10**20],
        [1e300],
        [-1],
    ]
)
SIZES = st.sampled_from([-1, 0, 1.5, 10**18, 10**19, 1e300, 10**400, 2**63])


@st.composite
def train_arguments(draw) -> dict:
    """Arguments that would do, with up to two of them replaced by anything."""
    arguments = {name: draw(valid) for name, valid in VALID.items()}
    spoilt = draw(st.lists(st.sampled_from(sorted(arguments)), max_size=2))
    anything = {name: draw(st.one_of(JUNK, MISSPELT, SIZES)) for name in spoilt}
    if isinstance(anything.get("steps"), int | float) and anything["steps"] > 2:
        anything["steps"] = -anything["steps"]  # a long run is no mistake, and takes long
    return arguments | anything


@given(arguments=train_arguments())
@example(arguments={"lr_decoder": 1e30, "lr_attention": 1e30, "steps": 2, "batch": 1})
@example(
    arguments={
        "lr_decoder": 1e30,
        "lr_attention": 1e30,
        "steps": 2,
        "batch": 1,
        "keep": ["decoder"],
        "momentum": 0.9,
    }
)
@settings(max_examples=200)
def test_training_with_any_arguments_is_a_record_or_an_input_error(arguments):
    record = unless_refused(lambda: train(TASK, **arguments))
    if record is None:
        return
    assert set(np.unique(record.stop_reason)) <= {"finished", "diverged"}
    kept = record.where(record.stop_reason == "finished", drop=True)
    assert np.isfinite(kept.loss).all()


LARGE_BUT_ALLOWED = [(name, 10**18) for name in ("context", "lr_decoder", "lr_attention", "steps")]
WRONG = [
    10**400,
    1e300,
    10**18,
    -1,
    math.nan,
    [[1], [1, 2]],
    np.array([0.5, 1.5]),
    {"a": 1},
    b"x",
    object(),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name}-{str(value)[:9]}")
        for name in VALID
        for value in WRONG
        if not isinstance(value, int) or (name, value) not in LARGE_BUT_ALLOWED
        if not (name.startswith("lr_") and isinstance(value, np.ndarray))
    ],
)
def test_each_argument_of_training_refuses_what_it_cannot_be(name, value):
    with pytest.raises(InputError, match=name):
        train(TASK, **{"steps": 2, "batch": 1, "context": 5, name: value})


@pytest.mark.parametrize("task", [None, "syn-small", [[0.5, 0.5]], {}])
def test_a_task_that_is_none_is_refused(task):
    for dynamics in (train, flow):
        with pytest.raises(
            InputError, match="must be a System, a SequenceClasses, Windows or a MarkovChain"
        ):
            dynamics(task)


SHORT = ("run", QUICK, "--draws", "5", "--lr-decoder", "2")
VALUES = (
    "-1",
    "0",
    "1",
    "0.5",
    "2",
    "1e9",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "True",
    "None",
    "[1]",
    "1,2",
    "",
    " ",
    "--",
    "-",
)
FLAGS = (
    "--json",
    "--help",
    "--out",
    "--seed",
    "--no-json",
    "--draws",
    "--pauses",
    "--lr_decoder",
    "--config.seed",
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
WORD = st.one_of(st.sampled_from(VALUES), st.sampled_from(FLAGS), TEXT)


def exit_code(arguments: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command_line.main(arguments)
        except SystemExit as stopped:  # after --help
            code = stopped.code or 0
    return code, err.getvalue()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@given(
    place=st.integers(3, len(SHORT)),
    words=st.lists(WORD, min_size=1, max_size=2),
    instead=st.booleans(),
)
@settings(max_examples=100)
def test_a_run_with_any_settings_ends_with_an_exit_code(results, place, words, instead):
    arguments = [*SHORT[:place], *words, *SHORT[place + instead :], "--out", str(results)]
    with contextlib.chdir(results):  # for a stray `--out`
        code, err = exit_code(arguments)
    assert code in (0, 1, 2)
    assert (code == 2) == (err != "")
    assert err == "" or (err.startswith("saccade: ") and err.count("\n") == 1), err


COMMAND = st.sampled_from(
    [
        "list",
        "env",
        "reproduce",
        "run",
        "run first-force",
        "run condensation",
        "raproduce",
    ]
)


@given(
    command=st.one_of(COMMAND, WORD),
    words=st.lists(st.one_of(WORD, st.sampled_from(["first-force"])), max_size=4),
)
@settings(max_examples=300)
def test_any_words_on_the_command_line_end_with_an_exit_code(command, words):
    def would_run(*_, **__):
        raise InputError("this would run.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "_run_all", would_run)  # what is read, not what is run
        code, err = exit_code([*command.split(" "), *words])
    assert code in (0, 2)
    assert (code == 2) == (err != "")
    assert err == "" or (err.startswith("saccade: ") and "Traceback" not in err), err
