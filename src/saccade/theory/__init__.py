"""Theory: what the papers predict, a package for each. Nothing here knows how a simulation is done."""
