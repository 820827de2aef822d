"""Checkpoints of an unwatched run show afterwards what watching would have shown, and which of them
is broken.

A tiny GPT-2 saves a checkpoint every few steps. It is also watched, so that there is something to
compare with; and one checkpoint is truncated, as on a full disk. On the command line: `saccade
observe FOLDER`. Needs `pip install '.[torch]'`.
"""

import json
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import transformers

import saccade

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)
torch.set_num_threads(1)  # so small a model loses more by sharing its work than it gains
transformers.utils.logging.disable_progress_bar()
kept = tempfile.TemporaryDirectory(prefix="saccade-checkpoints-")
folder = Path(kept.name)

# %% The run: pairs of equal tokens are learnt, and every tenth state is saved.
torch.manual_seed(0)
sizes = {"vocab_size": 31, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
model = transformers.GPT2LMHeadModel(
    transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0)
)
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
probe = {"input_ids": torch.randint(31, (4, 8)).repeat_interleave(2, dim=1)}
steps = list(range(0, 41 if small else 101, 10))
with saccade.watch(model, probe, every=steps, budget=None) as recorder:
    for step in range(steps[-1] + 1):
        recorder.step(step)
        if step in steps:
            model.save_pretrained(folder / f"checkpoint-{step}")
        tokens = torch.randint(31, (16, 8)).repeat_interleave(2, dim=1)
        loss = model(input_ids=tokens, labels=tokens).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

# %% One checkpoint is cut short.
broken = folder / "checkpoint-20" / "model.safetensors"
broken.write_bytes(broken.read_bytes()[:1000])

# %% Afterwards: the folder and the same probe are enough, the model is built from its config.json.
record = saccade.observe_checkpoints(folder, probe=probe)
findings = json.loads(record.attrs["findings"])
for kind, at, sentence in findings:
    print(f"{kind}, step {at}: {sentence[:110]}")
whole = [step for step in steps if step != 20]
assert record.time.values.tolist() == whole
assert [at for kind, at, _ in findings if kind == "left out"] == [[20]], (
    "the broken one, and no other"
)

# %% The same numbers as those of the run that was watched; and they are not constant, so that there
# is something to agree on.
watched = recorder.record.sel(time=whole)
for name in ("entropy", "top_mass", "self_mass", "previous_mass"):
    error = float(abs(record[name] - watched[name]).max())
    moved = float((watched[name].max("time") - watched[name].min("time")).max())
    print(f"{name:14} largest difference {error:.0e}, while it moves by {moved:.2f}")
    assert error < 1e-4 < 0.01 * moved

# %% Entropy of every head, from the checkpoints (lines) and as it was watched (crosses).
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for layer in range(2):
    for head in range(2):
        label = f"layer {layer}, head {head}"
        axes.plot(
            record.time,
            record.entropy.isel(layer=layer, head=head),
            ("-", "--")[layer],
            label=label,
        )
axes.plot(recorder.record.time, recorder.record.entropy.values.reshape(-1, 4), "k+", ms=5)
axes.set(xlabel="step", ylabel="entropy of attention (nats)")
axes.legend()
figure.savefig(out / "checkpoint_series.png", dpi=150)
kept.cleanup()
