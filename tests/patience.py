"""How long a test waits for what must come: long enough for a machine with ten times its usual
work, and not forever.
"""

PATIENCE = 1200.0  # s, for processes that load libraries and compute: what takes longer hangs
ANSWER = 120.0  # s, for pages, servers and threads that only have to answer
