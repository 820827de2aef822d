"""Names of files that another file gives: accepted only in the form that Saccade writes, so that none leads out of its folder."""

from __future__ import annotations

import re
from pathlib import Path

from saccade.errors import InputError, shortened

PLAIN = r"\w[\w.-]*"  # one part, neither hidden nor absolute


def named(folder: Path, name: object, form: str = PLAIN) -> Path:
    """The file in `folder` that another file names. `form`: what the whole name must match, in ASCII."""
    if not isinstance(name, str) or not re.fullmatch(form, name, re.ASCII):
        raise InputError(f"{shortened(name)} is not the name of a file that Saccade writes.")
    return folder / name
