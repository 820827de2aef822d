"""The parts of `attention-fates`, one setting a file.

Each part has `DEFINITIONS` of its variables, `measure(config)` -> variables and coordinates, and, from the record alone,
`claims`, `rows` for the table and `draw` for its panel of the figure.
"""
