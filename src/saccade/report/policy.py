"""What a page of one file may do: run its own script, which is named by its hash, and fetch
nothing.
"""

from __future__ import annotations

import base64
import hashlib


def policy(script: str) -> str:
    """The content of a page's Content-Security-Policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
