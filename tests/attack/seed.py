"""Where the attacks draw from: another seed each time at full size, which SACCADE_ATTACK_SEED
repeats; in CI always the same.
"""

from __future__ import annotations

import os
import random
import secrets

_NAME = "SACCADE_ATTACK_SEED"
IS_FULL = os.environ.get("SACCADE_ATTACK") == "full"
SEED = os.environ.setdefault(
    _NAME, secrets.token_hex(4) if IS_FULL else "0"
)  # in the environment: all processes share it
REPEAT = f"{_NAME}={SEED} repeats these attacks"


def randomness(name: str) -> random.Random:
    """That of one attack, the same whatever other attacks are made."""
    return random.Random(f"{SEED} {name}")
