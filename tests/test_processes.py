"""Runs in processes of their own: results in order, errors raised."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.processes import in_processes


def root(number: int) -> float:
    return float(np.sqrt(number))


@pytest.mark.parametrize("processes", [1, 2])
def test_runs_come_back_in_the_order_of_their_jobs(processes):
    pytest.importorskip("torch")
    seen: list[float] = []
    assert in_processes(root, [(9,), (1,), (4,)], seen.append, processes) == [3.0, 1.0, 2.0]
    assert seen[-1] == 1.0


def test_an_error_in_a_run_is_raised():
    pytest.importorskip("torch")
    with pytest.raises(TypeError):
        in_processes(root, [("nine",), (1,)], processes=2)
