"""In the theory's own flow attention scans, then snaps: growth follows ln t up to the predicted
onset, and ln ln t from there to t = 1e12.

Five classes share one token and one query. We follow the theory's own flow (C) of arXiv 2305.16380,
in which a distinct token's logit z moves as its squared feature f times a drive; so its log growth
B is the sum of dz / f^2, measured without any theory. Plain gradient flow (B) bends at the same
time, far lower, and then keeps growing as ln t: `saccade reproduce plain-descent`.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import saccade
from saccade.theories import scan_and_snap as theory

small = "--small" in sys.argv
out = Path("results/examples")
out.mkdir(parents=True, exist_ok=True)

# %% Five classes with one query: a token they share (the first column) and four distinct tokens
# each.
n_classes, n_vocab, lr_decoder, lr_attention = 5, 1000, 1.0, 100.0
weights = np.hstack(
    [np.full((n_classes, 1), 0.28), np.kron(np.eye(n_classes), [0.1, 0.4, 0.7, 1.0])]
)
task = saccade.SequenceClasses(weights, n_vocab=n_vocab, normalise=True)
record = saccade.reduced_flow(
    task, t1=1e12, lr_decoder=lr_decoder, lr_attention=lr_attention, n_times=150 if small else 300
)

# %% Log growth of the most frequent distinct token of the first class, token 4.
after_start = record.isel({"time": slice(1, None), "class": 0, "query": 0})
attention, z = after_start.attention, after_start.attention_logits.sel(token=4)
inverse_square = (attention**2).sum("token") / attention.sel(token=4) ** 2  # 1 / f^2
t = after_start.time.values
B = np.concatenate(
    [[0], np.cumsum(np.diff(z) * (inverse_square.values[1:] + inverse_square.values[:-1]) / 2)]
)

# %% What theory says: until when attention scans, from when on it snaps, and how far it has come by
# then.
clock = {"n_vocab": n_vocab, "n_classes": n_classes, "lr_decoder": lr_decoder}
scan, snap = theory.scan_time(**clock), theory.snap_time(**clock)
feature = theory.normalised_feature(task.token_prob)[0]
start = {"normaliser": 1 / feature[0], "distinct_concentration": np.sum(feature[1:5] ** 4)}
predicted = theory.floored_growth_bound(t, **clock, lr_attention=lr_attention, **start)

# %% Measured: where growth per ln t has halved, how far B is from theory, and in which variable
# late growth is straight.
per_log = np.gradient(B, np.log(t))
onset = t[np.flatnonzero(per_log >= per_log.max() / 2)[-1]]
late = t > snap
log_log = np.log(np.log(n_vocab * lr_decoder * t[late] / n_classes))
bend = {
    name: np.polyfit(x, B[late], 1, full=True)[1][0] ** 0.5
    for name, x in (("ln t", np.log(t[late])), ("ln ln t", log_log))
}
off = np.abs(B / predicted - 1)[t > scan / 3].max()
print(f"growth per ln t has halved at t = {onset:.0f}; theory: between {scan:.0f} and {snap:.0f}")
print(f"log growth is within {off:.1%} of theory from t = {scan / 3:.0f} to 1e12")
print(
    f"after the onset a line in ln t misses it {bend['ln t'] / bend['ln ln t']:.1f} times as far as one in ln ln t"
)
assert scan < onset < snap
assert off < 0.05
assert bend["ln t"] > 3 * bend["ln ln t"]

# %% Growth over time, with the two predicted times.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.semilogx(t[::3], B[::3], "o", ms=3, label="flow")
axes.semilogx(t, predicted, label="theory")
axes.axvspan(scan, snap, color="0.85", label="predicted onset")
axes.set(xlabel="t (steps)", ylabel="log growth B", xlim=(1e-1, None), ylim=(0, None))
axes.legend(loc="lower right")
figure.savefig(out / "scan_then_snap.png", dpi=150)
