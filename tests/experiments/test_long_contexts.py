from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.long_contexts import long_contexts


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"failure_prob": 0.0}, "failure_prob"), ({"shortest": 6, "longest": 7}, "longest")],
)
def test_settings_that_make_no_sense_are_named(settings, named):
    with pytest.raises(InputError, match=named):
        long_contexts.run(long_contexts.settings(**settings))
