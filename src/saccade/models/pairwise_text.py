r"""The pairwise model on windows of a text, all of them at every step: decoder logits Y and
attention logits Z, token by token.

The model of `pairwise.py` without its classes: contexts are finite, as they stand in the text, and
any token may follow any query. Its loss is an average over the windows, so training it has no noise
and its flow is exact. Loss and velocity come from sparse counts (`window_pass.py`); the derivatives
of the velocity that `linearise` and `critical_point` ask for, from a dense loss in JAX, which is
affordable where they are: some dozens of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.windows import Windows
from saccade.errors import InputError, checked_count, checked_kind, checked_number, shortened
from saccade.later import jax, jnp
from saccade.measures import window_attention
from saccade.models.system import Equations, Observable, Solver, System
from saccade.models.window_pass import Layout, Options, Pass, laid_out, one_pass

_SEEN = {
    "attention": "attention of the query on each token, mean over its windows",
    "attention_logits": "Z: how much the query seeks each context token",
}


class TextParameters(NamedTuple):
    """`decoder`: Y (token, next token); `attention`: Z (query token, token)."""

    decoder: Any
    attention: Any


@dataclass(frozen=True, eq=False)
class PairwiseText(System):
    """The pairwise model of Scan and Snap on windows of a text; from Y = Z = 0, without noise.

    | argument       | meaning                                                                                                  |
    |----------------|----------------------------------------------------------------------------------------------------------|
    | `windows`      | what it learns: `corpus.windows(...)`, or `Windows.of_classes(...)`                                      |
    | `queries`      | query tokens that a record keeps: how many of the most frequent, or a list. All of them are trained      |
    | `normalise`    | divide attention by its Euclidean norm, the paper's LayerNorm; off: the decoder reads attention itself   |
    | `residual`     | add the one-hot query to the attention before the normalisation                                          |
    | `lr_decoder`   | learning rate of the decoder logits Y, per step                                                          |
    | `lr_attention` | learning rate of the attention logits Z, per step                                                        |
    """

    windows: Windows
    _: KW_ONLY
    queries: int | Sequence[str | int] = 8
    normalise: bool = True
    residual: bool = False
    lr_decoder: float = 1.0
    lr_attention: float = 1.0
    query_ids: NDArray[np.int64] = field(init=False)

    # Half a million unknowns at 500 tokens: 4 MB for each time. As for classes, the flow is hardly
    # stiff.
    solver = Solver(t1=100.0, n_times=40, rtol=1e-6, atol=1e-9, most_for_lsoda=8000)
    seeds = None
    keep = ("attention", "attention_logits")
    time_unit = "steps of gradient descent"
    loss_unit = "nats"

    def __post_init__(self) -> None:
        checked_kind("windows", self.windows, Windows)
        for name, rate in self.rates().items():
            checked_number(f"lr_{name}", rate, low=0.0, high=1e30)
        object.__setattr__(self, "query_ids", _query_ids(self.windows, self.queries))

    @property
    def options(self) -> Options:
        return Options(self.normalise, self.residual)

    def start(self, rng: np.random.Generator) -> TextParameters:
        n_vocab = self.windows.n_vocab
        return TextParameters(np.zeros((n_vocab, n_vocab)), np.zeros((n_vocab, n_vocab)))

    def rates(self) -> dict[str, float]:
        return {"decoder": self.lr_decoder, "attention": self.lr_attention}

    def one_pass(self, parameters: TextParameters, dtype: str = "float64") -> Pass:
        """Loss and minus its gradient, over all windows."""
        known = self._laid_out
        if dtype not in known:
            known[dtype] = laid_out(self.windows, self.options, dtype)
        return one_pass(known[dtype], *parameters)

    @cached_property
    def _laid_out(self) -> dict[str, Layout]:
        return {}

    def loss(self, parameters: TextParameters) -> Any:
        """From dense counts, windows x vocabulary, in JAX: what the sparse pass must equal."""
        query = self.windows.query
        raw = jax.nn.softmax(
            jnp.log(self.windows.counts.toarray()) + parameters.attention[query], axis=1
        )
        if self.residual:
            raw = raw + jax.nn.one_hot(query, self.windows.n_vocab)
        feature = raw / jnp.linalg.norm(raw, axis=1, keepdims=True) if self.normalise else raw
        logits = feature @ parameters.decoder
        at_next = jnp.take_along_axis(logits, self.windows.next_token[:, None], axis=1)[:, 0]
        return jnp.sum(self.windows.weight * (jax.nn.logsumexp(logits, axis=1) - at_next))

    def equations(self) -> Equations:
        return self._known_equations

    @cached_property
    def _known_equations(self) -> Equations:
        def without_jax(parameters: TextParameters) -> tuple[float, TextParameters]:
            found = self.one_pass(parameters)
            return found.loss, TextParameters(
                self.lr_decoder * found.decoder, self.lr_attention * found.attention
            )

        return Equations(
            velocity=lambda parameters, _: self.velocity(parameters),
            loss=lambda parameters, _: self.loss(parameters),
            setting=None,
            without_jax=without_jax,
        )

    def coordinates(self) -> dict[str, Any]:
        names = self.windows.token_names
        rates = {"lr_decoder": self.lr_decoder, "lr_attention": self.lr_attention}
        return {"query": [names[token] for token in self.query_ids], "token": list(names)} | rates

    def data(self) -> dict[str, Observable]:
        count = np.stack([self.windows.token_count(query) for query in self.query_ids])
        share = np.bincount(self.windows.query, self.windows.weight, self.windows.n_vocab)[
            self.query_ids
        ]
        every = np.asarray(self.windows.weight @ self.windows.counts)
        return {
            "stationary": Observable(
                ("token",), every / every.sum(), "1", "share of each token in the contexts"
            ),
            "token_count": Observable(
                ("query", "token"),
                count,
                "1",
                "how often each token occurs in the contexts of the query",
            ),
            "query_share": Observable(
                ("query",), share, "1", "share of the windows that have this query"
            ),
        }

    def observable(self) -> tuple[str, ...]:
        return ("parameter_decoder", "parameter_attention", *_SEEN)

    def observe_path(self, path: TextParameters, keep: Sequence[str]) -> Mapping[str, Observable]:
        """Of parameters with a leading axis of times."""
        logits = np.asarray(path.attention)[:, self.query_ids]
        made: dict[str, Callable[[], Observable]] = {
            "attention": lambda: Observable(
                ("query", "token"), self._mean_attention(logits), "1", _SEEN["attention"]
            ),
            "attention_logits": lambda: Observable(
                ("query", "token"), logits, "1", _SEEN["attention_logits"]
            ),
            **{
                f"parameter_{name}": partial(_parameter_seen, name, values)
                for name, values in path._asdict().items()
            },
        }
        return {name: made[name]() for name in keep}

    def observe(self, parameters: TextParameters) -> Mapping[str, Observable]:
        """Of one point, in NumPy."""
        seen = self.observe_path(
            jax.tree.map(lambda part: np.asarray(part)[None], parameters), self.observable()
        )
        return {
            name: Observable(one.axes, one.values[0], one.unit, one.definition)
            for name, one in seen.items()
        }

    def _mean_attention(self, logits: NDArray) -> NDArray:
        """Of each query on each token (time, query, token)."""
        own = [self.windows.query == query for query in self.query_ids]
        counts, weight = self.windows.counts, self.windows.weight
        found = [
            window_attention(counts[mine], weight[mine], logits[:, place])
            for place, mine in enumerate(own)
        ]
        return np.stack(found, axis=1)

    def config(self) -> dict[str, Any]:
        n_windows = len(self.windows.query)
        return {
            "task": self.windows.name,
            "model": {**self.options._asdict(), "windows": n_windows},
            "rates": self.rates(),
        }

    def label(self, dynamics: str) -> str:
        return dynamics


def _query_ids(windows: Windows, queries: Any) -> NDArray[np.int64]:
    """Ids of the query tokens that a record keeps."""
    if isinstance(queries, int) and not isinstance(queries, bool):
        return windows.frequent_queries[: checked_count("queries", queries)]
    number = {name: token for token, name in enumerate(windows.token_names)}
    known = set(windows.frequent_queries.tolist())
    ids = [query if isinstance(query, int) else number.get(query, -1) for query in queries]
    for query, token in zip(queries, ids, strict=True):
        if token not in known:
            raise InputError(
                f"`queries`: {shortened(query)} is not the query of any window of {windows.name}."
            )
    return np.array(ids, np.int64)


def _parameter_seen(name: str, values: Any) -> Observable:
    return Observable(
        (f"{name}_0", f"{name}_1"), np.asarray(values), "1", f"{name}, a parameter of the system"
    )
