"""Sweeps share the processes that compute."""

from tests.kept_processes import kept_processes_end, processes_are_kept

__all__ = ["kept_processes_end", "processes_are_kept"]  # fixtures of the tests here
