"""With a separately learnt value matrix, attention still scans for distinct tokens and then snaps.

Scan and Snap (arXiv 2305.16380) folds the value matrix into the decoder. Here it starts at the
identity and moves on its own.
"""

import jax
import jax.numpy as jnp
import numpy as np

import saccade

task = saccade.SequenceClasses(
    [[0.5, 0.35, 0.15, 0, 0], [0.5, 0, 0, 0.3, 0.2]]
)  # token 0 is common, the others distinct


class ValueMatrix(saccade.System):
    def start(self, rng):
        n = task.n_vocab
        return {"attention": np.zeros(n), "value": np.eye(n), "decoder": np.zeros((n, n))}

    def loss(self, parameters):
        weights = task.token_prob * jnp.exp(parameters["attention"])
        feature = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
        log_prob = jax.nn.log_softmax(feature @ parameters["value"] @ parameters["decoder"])
        return -jnp.mean(log_prob[np.arange(task.n_classes), task.next_token])

    def observe(self, parameters):
        attention = jax.nn.softmax(parameters["attention"] + jnp.log(task.token_prob), axis=1)
        return {
            "attention": saccade.Observable(
                ("class", "token"), attention, "1", "attention of each class"
            )
        }


run = saccade.flow(ValueMatrix(), t1=1e10, n_times=100, seed=0)
logits, start, end = (
    run.parameter_attention,
    run.attention.isel(time=0),
    run.attention.isel(time=-1),
)
pace = np.diff(logits[1:, 1]) / np.diff(
    np.log(run.time[1:])
)  # growth of the winner's logit for each e-fold of time
scans = bool(
    (end[:, 0] < start[:, 0]).all()
    and logits[-1, 1] > logits[-1, 2]
    and logits[-1, 3] > logits[-1, 4]
)
snaps = bool(pace[-1] < pace.max() / 2)
print(
    f"scan: attention on the common token {start[:, 0].mean():.2f} -> {end[:, 0].mean():.2f}; survives: {scans}"
)
print(
    f"snap: growth for each e-fold of time {pace.max():.3f} at most, {pace[-1]:.3f} at the end; survives: {snaps}"
)
assert scans, "common tokens lose, frequent distinct tokens win"
assert snaps, "growth slows down"
