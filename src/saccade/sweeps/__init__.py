"""Sweeps: one experiment over a grid of its settings and over seeds, on one machine or many,
resumable.

| file              | what it holds                                                                  |
|-------------------|--------------------------------------------------------------------------------|
| `axes.py`         | what is swept: `lr_attention=0.5,1,2`, `ratio=1..10:log8`                      |
| `grid.py`         | every run of a sweep: its settings, its place on the axes, its identity        |
| `asked.py`        | what was asked for in a folder, read without running anything                  |
| `units.py`        | one run as a unit of work                                                       |
| `execution.py`    | one unit computed, whatever comes of it                                        |
| `processes.py`    | units over processes of this machine                                           |
| `cluster.py`      | units over a Dask cluster                                                      |
| `outcome_file.py` | outcomes of runs in one file                                                   |
| `folder.py`       | the folder of a sweep: finished runs, checksums, one writer at a time          |
| `gathering.py`    | all runs as one dataset and one table                                          |
| `figure.py`       | the heat map or lines of a sweep                                               |
| `estimate.py`     | how long it will take, from a timed sample                                     |
| `repair.py`       | what of a folder is damaged, and running just that again                       |
| `sweep.py`        | the Python call                                                                |
| `command.py`      | the commands `saccade sweep` and `saccade check`                              |
"""
