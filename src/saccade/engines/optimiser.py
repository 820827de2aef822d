"""Which optimiser turns a gradient into an update, and when a loss counts as diverged."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import InputError, checked_choice, checked_number
from saccade.later import Array, optax

# Times ln(n_vocab), the loss of guessing uniformly. Gradients are bounded, so a rate far too high
# shows as a huge loss long before anything overflows; rates that learn stay below ten times it
# (tests/engines/test_descent.py).
DIVERGED = 1000.0


@dataclass(frozen=True)
class Optimiser:
    """`"sgd"` with momentum, or `"adam"` with Optax's defaults but for `epsilon`, below which it no
    longer rescales gradients.
    """

    name: str
    momentum: float
    epsilon: float = 1e-8

    def at(self, rate: Array | float) -> optax.GradientTransformation:
        return (
            optax.sgd(rate, self.momentum or None)
            if self.name == "sgd"
            else optax.adam(rate, eps=self.epsilon)
        )


def checked_optimiser(name: str, momentum: float, epsilon: float = 1e-8) -> Optimiser:
    checked_choice("`optimiser`", name, ("sgd", "adam"))
    momentum = checked_number("momentum", momentum, low=0.0)
    if momentum >= 1:
        raise InputError(f"`momentum` must be below 1, or past steps never fade; got {momentum:g}.")
    if name == "adam" and momentum:
        raise InputError("`momentum` belongs to optimiser 'sgd'; Adam has its own. Leave it at 0.")
    return Optimiser(name, momentum, checked_number("epsilon", epsilon, low=0.0, high=1.0))
