"""`python -m saccade`: the command line, where its script is not on the path."""

from saccade.cli import entry

entry()
