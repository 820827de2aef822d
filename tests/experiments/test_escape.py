"""The escape from the origin: settings that leave nothing to compare are refused."""

from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments.rank_collapse.escape import escape


@pytest.mark.parametrize(
    "name, value",
    [("starts", (3,)), ("widths", (2, 4)), ("widths", (1, 2)), ("scales", (1.0, 1e-3))],
)
def test_sizes_and_scales_that_leave_nothing_to_compare_are_refused(name, value):
    with pytest.raises(InputError, match=rf"`{name}`"):
        escape.run(escape.settings(**{name: value}))
