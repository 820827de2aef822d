"""Classes from tables and CSV files are those of the array they spell out; files that are not such
tables are refused.
"""

from __future__ import annotations

import csv
import math

import numpy as np
import pandas as pd
import pytest

from saccade import InputError, SequenceClasses

TOKENS = ("the", "of", "cat", "dog", "eel")
PROB = np.array([[0.5, 0.125, 0.375, 0, 0], [0.25, 0.25, 0, 0.5, 0], [0.1, 0.2, 0, 0, 0.7]])
CLASSES, QUERIES, WEIGHTS = ("purrs", "barks", "swims"), ("it", "it", "she"), (2, 3, 5)
BY_HAND = SequenceClasses(
    PROB,
    query=[5, 5, 6],
    next_token=[7, 8, 9],
    class_weight=WEIGHTS,
    token_names=(*TOKENS, "it", "she", *CLASSES),
)


def rows() -> list[dict]:
    return [
        {"class": name, "query": query, "weight": weight, **dict(zip(TOKENS, prob))}
        for name, query, weight, prob in zip(CLASSES, QUERIES, WEIGHTS, PROB.tolist())
    ]


def written(path, text: str | bytes):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same(task: SequenceClasses, other: SequenceClasses) -> bool:
    arrays = ("token_prob", "query", "next_token", "class_weight")
    return task.labels == other.labels and all(
        np.array_equal(getattr(task, a), getattr(other, a)) for a in arrays
    )


def test_a_table_of_rows_is_the_array_it_spells_out():
    assert same(SequenceClasses.from_table(rows()), BY_HAND)


def test_a_data_frame_is_the_array_it_spells_out():
    assert same(SequenceClasses.from_table(pd.DataFrame(rows())), BY_HAND)


def test_a_csv_file_is_the_array_it_spells_out_bit_for_bit(tmp_path):
    path = tmp_path / "animals.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows()[0]))
        writer.writeheader()
        writer.writerows(rows())
    task = SequenceClasses.from_csv(path)
    assert same(task, BY_HAND)
    assert task.name == "animals"
    assert same(SequenceClasses.from_csv(str(path)), BY_HAND)


def test_spaces_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path):
    plain = written(tmp_path / "plain.csv", "class,query,a,b\nx,q,0.25,0.75\ny,q,1,0\n")
    typed = written(
        tmp_path / "typed.csv", "﻿ class , query, a ,b \r\n x, q ,0.25 , 0.75\r\ny,q,1, 0 \r\n"
    )
    assert same(SequenceClasses.from_csv(typed), SequenceClasses.from_csv(plain))


def test_a_query_may_be_one_of_the_context_tokens(tmp_path):
    task = SequenceClasses.from_csv(
        written(tmp_path / "t.csv", "class,query,a,b\nx,b,0.5,0.5\ny,a,0.25,0.75\n")
    )
    assert task.labels == ("a", "b", "x", "y")
    assert task.query.tolist() == [1, 0]
    assert task.next_token.tolist() == [2, 3]


def test_a_next_token_may_be_one_of_the_context_tokens():
    task = SequenceClasses.from_table(
        [{"class": "b", "query": "q", "a": 0.5, "b": 0.5}, {"class": "a", "query": "q", "a": 1}]
    )
    assert task.labels == ("a", "b", "q")
    assert task.next_token.tolist() == [1, 0]


def test_without_query_and_weight_columns_rows_share_a_query_and_weigh_alike():
    task = SequenceClasses.from_table(
        [{"class": "x", "a": 0.5, "b": 0.5}, {"class": "y", "a": 1.0, "b": 0.0}]
    )
    assert task.labels == ("a", "b", "<query>", "x", "y")
    assert task.query.tolist() == [2, 2]
    assert task.class_weight.tolist() == [0.5, 0.5]


def test_a_token_named_by_a_number_is_a_query_like_any_other():
    table = [{"class": "x", "query": 0, 0: 1.0, 1: 0.0}, {"class": "y", "query": 1, 0: 0.5, 1: 0.5}]
    assert SequenceClasses.from_table(table).query.tolist() == [0, 1]
    assert SequenceClasses.from_table(pd.DataFrame(table)).query.tolist() == [0, 1]


def test_empty_cells_are_zeros_in_every_kind_of_table(tmp_path):
    expected = SequenceClasses.from_table(
        [{"class": "x", "a": 1.0, "b": 0.0}, {"class": "y", "a": 0.5, "b": 0.5}]
    )
    path = written(tmp_path / "gaps.csv", "class,a,b\nx,1,\ny,0.5,0.5\n")
    assert same(SequenceClasses.from_csv(path), expected)
    assert same(
        SequenceClasses.from_table(
            [{"class": "x", "a": 1, "b": None}, {"class": "y", "a": 0.5, "b": 0.5}]
        ),
        expected,
    )
    assert same(
        SequenceClasses.from_table(pd.read_csv(path)), expected
    )  # pandas reads an empty cell as NaN


def test_a_token_that_the_first_row_does_not_mention_is_a_token_too():
    task = SequenceClasses.from_table(
        [{"class": "x", "a": 1.0}, {"class": "y", "a": 0.5, "b": 0.5}]
    )
    assert task.labels == ("a", "b", "<query>", "x", "y")
    assert task.token_prob[:, :2].tolist() == [[1, 0], [0.5, 0.5]]


def test_tables_are_rescaled_when_asked_and_refused_when_not(tmp_path):
    path = written(tmp_path / "counts.csv", "class,a,b\nx,3,1\ny,0,7\n")
    assert SequenceClasses.from_csv(path, normalise=True).token_prob[:, :2].tolist() == [
        [0.75, 0.25],
        [0, 1],
    ]
    with pytest.raises(
        InputError,
        match=r"class 'x' sums to 4\. Divide each row by its sum; in Python, `normalise=True`",
    ):
        SequenceClasses.from_csv(path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "empty|no rows"),
        ("\n\n", "empty"),
        ("class,a,b\n", "the table of classes has no rows; it needs one row for each class"),
        ("class,a,b\nx,0.5\n", "every row must have as many cells as the header, 3"),
        (
            "class,a,a\nx,0.5,0.5\n",
            "every column needs a different name; the header is class, a, a",
        ),
        ("class,a,\nx,0.5,0.5\n", "every column needs a different name"),
        (
            "class,a,b\nx,0.5,0.5\ny,0.5,half\n",
            "bad.csv: row 2, class 'y', column 'b': 'half' is not a number",
        ),
        (
            "class,weight,a\nx,heavy,1\n",
            "bad.csv: row 1, class 'x', column 'weight': 'heavy' is not a number",
        ),
        ("class,a\nx,nan\n", "bad.csv: .*(column 'a'|`token_prob` must be finite)"),
        (
            "class,a\nx,-1\n",
            "bad.csv: `token_prob` must not be negative; class 'x' gives token 'a' -1",
        ),
        ("class,a\n,1\n", "row 1 has no `class`: the column names the token to predict"),
        ("a,b\n0.5,0.5\n", "row 1 has no `class`"),
        ("class,query,weight\nx,q,1\n", "the table has no token columns"),
        ("class,a\nx,1\nx,1\n", "`next_token` must be different for every class"),
        ('class,a\n"x,1\n', r"cannot read classes from .*bad.csv: it is not a CSV file in UTF-8"),
        (
            b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe",
            r"cannot read classes from .*bad.csv: it is not a CSV file in UTF-8",
        ),
        ("class,a\nx,1\n".encode("utf-16"), "it is not a CSV file in UTF-8"),
    ],
)
def test_files_that_are_not_such_tables_are_refused(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence):
        SequenceClasses.from_csv(written(tmp_path / "bad.csv", content))


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(tmp_path):
    with pytest.raises(InputError, match=r"cannot read classes from .*missing.csv: No such file"):
        SequenceClasses.from_csv(tmp_path / "missing.csv")
    with pytest.raises(InputError, match=r"cannot read classes from .*: Is a directory"):
        SequenceClasses.from_csv(tmp_path)
    with pytest.raises(InputError, match="cannot read classes from"):
        SequenceClasses.from_csv("a\0b.csv")


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (None, "a table of classes is a list of rows"),
        ([1, 2], "a table of classes is a list of rows"),
        (pd.Series([1.0, 2.0]), "a table of classes is a list of rows"),
        (pd.DataFrame(), "the table of classes has no rows"),
        ([{"class": None, "a": 1.0}], "row 1 has no `class`"),
        ([{"class": math.nan, "a": 1.0}], "row 1 has no `class`"),
        ([{"class": "x", "a": [1.0]}], "row 1, class 'x', column 'a': .* is not a number"),
        ([{"class": "x", "a": np.array([0.5, 0.5])}], "column 'a'"),
        ([{"class": "x", "a": 10**400}], "column 'a'|`token_prob` must"),
        ([{"class": "x", "a": 1.0, "weight": 0}], "`class_weight` must be positive"),
    ],
)
def test_tables_that_hold_no_classes_are_refused(table, sentence):
    with pytest.raises(InputError, match=sentence):
        SequenceClasses.from_table(table)
