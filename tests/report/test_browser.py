"""Where a browser is required, its absence is a failure; elsewhere the tests that need it are
skipped.
"""

from __future__ import annotations

import sys

import pytest

from tests.browser import browser_path, playwright


@pytest.mark.parametrize(
    "setting, outcome", [("required", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
@pytest.mark.parametrize("missing", ["Chromium", "Playwright"])
def test_a_missing_browser_fails_only_where_it_is_required(monkeypatch, setting, outcome, missing):
    monkeypatch.setenv("CI_BROWSER", setting)
    monkeypatch.delenv("SACCADE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)  # as if it were not installed
    with pytest.raises(outcome, match=missing):
        browser_path() if missing == "Chromium" else playwright()
