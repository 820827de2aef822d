"""A record can be read and checked with xarray alone: its attention follows from the logits and the
data stored with it.

Nothing of Saccade is needed to read what it has written: a record is a Zarr folder with labelled
axes, a unit and a definition for every variable, and the whole configuration. So it can be read in
ten years, or by a colleague who does not use Saccade.
"""

import json
import sys
from pathlib import Path

import numpy as np
import xarray as xr

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)


# %% Somebody makes a record; the only place where Saccade is used.
def somebody_makes_a_record(path: Path) -> None:
    import saccade

    task = saccade.SequenceClasses.syn_small()
    kept = ("attention", "attention_logits")
    saccade.save_record(
        saccade.train(task, steps=50, momentum=0.9, seeds=3 if small else 10, keep=kept), path
    )


somebody_makes_a_record(out / "read_with_xarray.zarr")

# %% From here on there is only xarray.
record = xr.open_zarr(out / "read_with_xarray.zarr", consolidated=True).load()
config = json.loads(record.attrs["config"])
print(
    f"{record.attrs['dynamics']}, task {config['task']}, {config['steps']} steps of {config['optimiser']['name']}"
)
for name, variable in record.data_vars.items():
    print(f"  {name:16} {variable.dims!s:36} {variable.attrs['definition'][:60]}")
assert all({"units", "definition"} <= set(variable.attrs) for variable in record.data_vars.values())

# %% Attention again from its definition: chance of the token times exp(logit of the class's query),
# normalised.
of_class = record.attention_logits.sel(query=record.class_query)
weight = record.token_prob * np.exp(of_class)
again = weight / weight.sum("token")
error = float(abs(again - record.attention).max())
print(f"largest difference to the attention in the record: {error:.1e}")
assert error < 1e-6

# %% A number of the paper's Fig. 4 by two lines of xarray: attention left on tokens that both
# classes show.
is_common = (record.token_prob > 0).sum("class") > 1
left = record.attention.where(is_common).sum("token").sel(time=48, method="nearest").mean()
print(
    f"attention on common tokens at the end: {float(left):.3f}, from {float(record.token_prob.where(is_common).sum() / 2):.3f}"
)
assert 0.3 < left < 0.5
