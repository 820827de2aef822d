"""Dynamics: how parameters move. Users call them through `saccade.train`, `flow` and `reduced_flow` (`laboratory.py`).

| of                    | (A) training          | (B), (C) gradient flow                 | near a critical point               |
|-----------------------|-----------------------|----------------------------------------|-------------------------------------|
| the pairwise model    | `descent.py`          | `flow.py`                              | `linearise.py`                      |
| the embedded model    | `embedded_descent.py` | `embedded_flow.py`, `rank_one_flow.py` | `linearise.py`, `next_direction.py` |
| a Transformer on text | `training.py`         |                                        |                                     |
"""
