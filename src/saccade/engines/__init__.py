"""Dynamics: how parameters of any system move. Users call them through `saccade.train`, `flow` and
their like (`runs.py`).

| of                    | (A) training          | (B), (C) flow | near a critical point                |
|-----------------------|-----------------------|---------------|--------------------------------------|
| any system            | `train.py`            | `flow.py`     | `linearise.py`, `linear_validity.py` |
| the pairwise model    | `descent.py`          |               |                                      |
| the embedded model    | `embedded_descent.py` |               | `next_direction.py`                  |
| a Transformer on text | `training.py`         |               |                                      |
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
