"""The page's stories as data: settings, words, what is said and from when. They are written down
once, in `story_list.js`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from saccade.records.json_files import parsed_json


def stories() -> dict[str, dict[str, Any]]:
    """Every story by its name."""
    text = files("saccade.playground").joinpath("story_list.js").read_text("utf-8")
    _, _, listed = text.partition("const STORY_LIST = ")
    return {
        story["name"]: story for story in parsed_json(listed.rstrip().removesuffix(";"), [dict])
    }
