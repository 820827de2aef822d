"""Long runs that go on where they were stopped: where their checkpoints lie."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from saccade import __version__
from saccade.places import user_cache


def checkpoints(resumable: bool, *run: Any) -> Path | None:
    """A folder in the user's cache that is named by all that a run is made of; None for one that is not to be resumed.

    A run that is finished is read from there, not trained again. Another version of Saccade has folders of its own; to train anew
    with the same one, delete `~/.cache/saccade/training`.
    """
    cache = user_cache("training") if resumable else None
    return None if cache is None else cache / hashlib.sha256(repr((__version__, run)).encode()).hexdigest()[:16]
