"""Observation: what is measured of attention and weights.

| of                              | begin with                                                              |
|---------------------------------|-------------------------------------------------------------------------|
| arrays                          | `measures.py`, `events.py`: plain functions                             |
| a PyTorch model while it trains | `recorder.py`; how attention is seen: `capture.py`; what of it: `look.py` |
| checkpoints                     | `checkpoints`                                                           |
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
