"""With a residual around attention embeddings still condense, but attention never focuses, so there
is no dilution either.

Focus and Dilution (arXiv 2605.01199) has no residual. Here the last token reaches the decoder past
the attention as well.
"""

import jax
import jax.numpy as jnp

import saccade
from saccade.models.embedded import WEIGHTS, composite

chain = saccade.MarkovChain.zipf(5, stay=0.5)
plain = saccade.models.Embedded(chain, d_model=5, d_key=3)


class Residual(saccade.System):
    def start(self, rng):
        return plain.start(rng)

    def attention(self, weights):
        return jax.nn.softmax(
            composite(weights, 1.0).attention_logits + jnp.log(chain.stationary), axis=1
        )

    def loss(self, weights):
        logits = (self.attention(weights) + jnp.eye(chain.n_vocab)) @ composite(
            weights, 1.0
        ).decoder
        return -jnp.sum(chain.stationary[:, None] * chain.transition * jax.nn.log_softmax(logits))

    def observe(self, weights):
        kept = zip(
            (WEIGHTS | {"attention": ("query", "token")}).items(),
            [*weights, self.attention(weights)],
            strict=True,
        )
        return {
            name: saccade.Observable(axes, values, "1", f"{name} with a residual")
            for (name, axes), values in kept
        }

    def data(self):
        return plain.data()


stages = ["condensation", "attention_frozen", "focus_onset", "focus_peak", "dilution"]
for name, system in {"without": plain, "with": Residual()}.items():
    events = saccade.find_events(saccade.flow(system, t1=5000, n_times=600))
    found = {event.name: event.time for event in reversed(events)}  # the first of each kind
    print(
        f"{name} residual:",
        ", ".join(
            f"{stage} at {found[stage]:.0f}" if stage in found else f"no {stage}"
            for stage in stages
        ),
    )
assert {"condensation"} == set(found) & {"condensation", "focus_onset", "focus_peak", "dilution"}
