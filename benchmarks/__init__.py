"""Benchmarks: `python -m benchmarks` runs all of them (`make bench`), `python -m benchmarks.NAME` one.

| name             | question                                                                             | bar              |
|------------------|--------------------------------------------------------------------------------------|------------------|
| `syn_medium`     | how much faster are 640 runs than PyTorch, written in two ways (`opponent`)?          | 3 s, 150 x       |
| `context_length` | does a longer context cost more?                                                     | 1.2 x            |
| `growth`         | how do time and memory grow with vocabulary and classes?                             | 4 GB             |
| `flow_time`      | how long does the gradient flow to t = 1e12 take?                                    | 10 s             |
| `focus_dilution` | how long does the flow of Focus and Dilution take, and how does it grow with tokens?  | 3 s              |
| `windows`        | how does a step of training on all windows of a text grow, and is it below the bar?  | 60 ms            |
| `watching`       | what do looks at a model cost in time and memory?                                    | 2 %, 5 %         |
| `text_training`  | how fast and large is training on text beside a plain loop with whole logits?        | 1.0 x, 0.5 x     |
| `tokenising`     | how many megabytes of text a second become token ids?                                | tens             |
| `packing`        | how many runs should share a pack? Where `_BYTES_PER_PACK` comes from                |                  |
| `compilation`    | which of XLA's options compile and run fastest? Where `_compiled_scan`'s come from   |                  |

Tables are printed; numbers (CSV, JSON) and figures (PNG, SVG) go to results/benchmarks/. Absolute times are noisy and belong to
the machine; ratios of times taken in turns within one run are what counts, so everything that is compared is measured that way.
"""
