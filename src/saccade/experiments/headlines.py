"""Numbers that say what came of a run, each under a name: what a map over settings shows."""

from saccade.lab.experiment import by_cell as by_cell
