"""A real browser for the pages of the site."""

from __future__ import annotations

from tests.browser import browser

__all__ = ["browser"]
