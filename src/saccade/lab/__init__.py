"""The vocabulary of experiments: claims with relations, one object an experiment, panels that two drawers understand."""
