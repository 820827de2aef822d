"""Leaving a saddle: settings that leave nothing to compare are refused."""

from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.saddle import saddle


@pytest.mark.parametrize(
    "name, value", [("stays", (0.3, 0.0)), ("displacements", (1e-3,)), ("displacements", (1, 1e-3))]
)
def test_a_point_that_is_never_left_and_a_single_displacement_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        saddle.run(saddle.settings(**{name: value}))
