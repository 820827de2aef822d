"""The engine's scripts in a real Chromium, on a page of their own: what the tests of trajectories
and of theory talk to.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

# In the order in which they need each other.
SCRIPTS = (
    "settings_checks.js",
    "linear_algebra.js",
    "random_numbers.js",
    "stiff_step.js",
    "integrate.js",
    "descent.js",
    "pairwise_model.js",
    "reduced_flow.js",
    "scan_and_snap.js",
    "embedded_model.js",
    "embedded_curvature.js",
    "focus_and_dilution.js",
    "growth_clock.js",
    "rank_one_flow.js",
    "first_cycle.js",
    "theory.js",
)
OPTIONAL = ("stiff_step.js", "embedded_curvature.js")  # for the speed of long runs
_FOLLOW = """([model, settings, times]) => {
  const run = { ScanAndSnap, FocusAndDilution }[model].create(settings);
  return times.map((t) => { run.advance(t); return { ...run.observe(), parameters: run.parameters() }; });
}"""


def engine_page(browser: Any) -> Any:
    """A blank page with the engine on it."""
    page = browser.new_page()
    for script in SCRIPTS:
        page.add_script_tag(content=files("saccade.playground").joinpath(script).read_text())
    return page


def followed(page: Any, model: str, settings: dict[str, Any], times: Any) -> list[dict[str, Any]]:
    """What the browser sees of a run at these times, and its parameters."""
    return page.evaluate(_FOLLOW, [model, settings, [float(t) for t in times]])
