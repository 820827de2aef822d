"""Runs the code that a test has put into the environment: `torchrun` starts modules, not strings."""

import os

exec(os.environ["SACCADE_TEST_CODE"])
