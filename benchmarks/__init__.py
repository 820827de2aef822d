"""Benchmarks: `python -m benchmarks` runs all of them (`make bench`), `python -m benchmarks.NAME`
one.

| name             | question                                                                             |
|------------------|--------------------------------------------------------------------------------------|
| `startup`        | how long does one wait for help, a list, an import, the first figure?                |
| `syn_medium`     | how much faster are 640 runs than PyTorch, written in two ways (`opponent`)?         |
| `context_length` | does a longer context cost more?                                                     |
| `growth`         | how do time and memory grow with vocabulary and classes?                             |
| `flow_time`      | how long does the gradient flow to t = 1e12 take?                                    |
| `focus_dilution` | how long does the flow of Focus and Dilution take, and how does it grow with tokens? |
| `windows`        | how does a step of training on all windows of a text grow?                           |
| `watching`       | what do looks at a model cost in time and memory?                                    |
| `text_training`  | how fast and large is training on text beside a plain loop with whole logits?        |
| `tokenising`     | how many megabytes of text a second become token ids?                                |
| `sweeps`         | what do sweeps cost beyond their runs, and do they survive kills?                    |
| `packing`        | how many runs should share a pack? Where `_BYTES_PER_PACK` comes from                |
| `compilation`    | which of XLA's options compile and run fastest? Where `_compiled_scan`'s come from   |

Tables are printed; numbers (CSV, JSON) and figures (PNG, SVG) go to results/benchmarks/. Absolute
times are noisy and belong to the machine; ratios of times taken in turns within one run are what
counts, so everything that is compared is measured that way.
"""
