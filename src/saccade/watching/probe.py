"""The probe: a fixed batch that is looked at again and again, how to run the model on it, and what
is known of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from saccade.errors import InputError, checked_count, shortened
from saccade.watching.attention_call import AttentionCall
from saccade.watching.attention_statistics import BETWEEN, COMMON, DISTINCT, UNKNOWN, ProbeTokens
from saccade.watching.token_statistics import TokenStatistics

_DISTINCT = (
    0.5  # a key is distinct if it takes away at least half of what is unknown of the next token,
)
_COMMON = 0.1  # and common if it takes away at most a tenth; see `token_statistics.py`
MAIN, SECOND = "the text", "the second text"
_NO_TEXT = {"labels", "position_ids"}  # numbers by position that are not a text


_LEAST_PERIOD = 3  # different tokens of a repeated probe: with two, the token before is also the one that came after
_LEAST_PERIODS = 3  # that differ: a head that looks back by a fixed number of positions fits one of them, and the others tell
_MOST_REPEATED = 4  # sequences of it: enough for a scatter
_MOST_POSITIONS = 256  # of each, if the model takes sequences of any length: a longer one would cost as much as the probe itself


class Probe:
    """A batch as the model takes it: a tensor, a tuple of arguments or a mapping of named ones (as
    tokenizers give).

    `batch_axis` is that of sequences in all its tensors. `documents` (sequence, position) is 0 on
    padding and numbers the document of each other token; without it, padding and packing are read
    from `attention_mask` and `position_ids`, if there are any.
    """

    def __init__(self, batch: Any, batch_axis: int = 0, documents: Any = None) -> None:
        self._args: tuple[Any, ...]
        self._named: dict[str, Any]
        if isinstance(batch, Tensor):
            self._args, self._named = (batch,), {}
        elif isinstance(batch, Mapping):
            self._args, self._named = (), {str(name): value for name, value in batch.items()}
        elif isinstance(batch, list | tuple):
            self._args, self._named = tuple(batch), {}
        else:
            raise InputError(
                f"the probe must be a tensor, a tuple of arguments or named ones; got {shortened(batch)}."
            )
        self._args, self._named = held(self._args), held(self._named)
        self._axis = checked_count("batch_axis", batch_axis, low=0, high=1)
        self.n_batch = self._checked_size()
        self._places = self._texts()
        self._given = self._text(0)
        self.ids = (
            None if self._given is None else self._given.clamp_min(0)
        )  # below zero is padding
        self.n_positions = 0 if self.ids is None else self.ids.shape[1]
        if documents is None:
            self._documents = None
        else:
            numbers = torch.as_tensor(documents, device="cpu").detach()
            if numbers.shape != (self.n_batch, self.n_positions) or numbers.is_floating_point():
                raise InputError(
                    "`documents` must number the document of each token of the probe, 0 on padding, with shape "
                    f"{(self.n_batch, self.n_positions)} (sequence, position); got {numbers.dtype} of shape {tuple(numbers.shape)}."
                )
            self._documents = numbers.long().clone()

    def run(self, model: nn.Module, **more: Any) -> Any:
        """The model's answer, called as it is with the probe: another call may mean another mask."""
        args, named = _fresh(self._args), _fresh(self._named) | more
        with _without_cache(model):
            return model(*on_device_of(model, args), **on_device_of(model, named))

    def parts(self) -> Iterator[Any]:
        """All that it is made of, in order: names, shapes and arrays; of other objects their kind
        alone.
        """
        named = {
            **{str(place): value for place, value in enumerate(self._args)},
            **self._named,
            "documents": self._documents,
        }
        for name, value in named.items():
            is_tensor = isinstance(value, Tensor)
            yield (
                f"{name} {value.dtype} {tuple(value.shape)}"
                if is_tensor
                else f"{name} {type(value).__name__}"
            )
            if is_tensor:
                yield value.detach().cpu().double().numpy()

    def first(self) -> Probe:
        """The first sequence alone."""

        def cut(value: Any) -> Any:
            if isinstance(value, Tensor):
                has_axis = value.ndim > self._axis and value.shape[self._axis] == self.n_batch
                return value.narrow(self._axis, 0, 1) if has_axis else value
            if isinstance(value, list | tuple):
                return type(value)(cut(each) for each in value)
            if isinstance(value, Mapping):
                return {name: cut(each) for name, each in value.items()}
            # A cache of Transformers for the first sequence alone; anything else as it is.
            select = getattr(value, "batch_select_indices", None)
            if select is None:
                return value
            cache = _copied(value)
            cache.batch_select_indices(torch.tensor([0], device="cpu"))
            return cache

        named = {name: cut(value) for name, value in self._named.items()}
        documents = None if self._documents is None else self._documents[:1]
        return Probe(
            named if named else tuple(cut(value) for value in self._args), self._axis, documents
        )

    def shortened(self) -> Probe | None:
        """The same text cut to half its length; None if it cannot be, or more than a text is given."""
        return (
            None
            if self.ids is None or self.n_positions < 2
            else self.with_ids(self.ids[:, : self.n_positions // 2])
        )

    def with_ids(self, ids: Tensor) -> Probe | None:
        """Another text (sequence, position), without padding; None where more than a text is given."""
        others = [value for value in self._args[1:] if isinstance(value, Tensor)]
        tensors = {
            name: value
            for name, value in self._named.items()
            if isinstance(value, Tensor) and name != "labels"
        }
        made = {
            (self._places[0] if self._places else ""): ids,
            "attention_mask": torch.ones_like(ids),
            "position_ids": torch.arange(ids.shape[1], device="cpu").expand_as(ids),
            "token_type_ids": torch.zeros_like(ids),
        }
        if (
            self._given is None
            or others
            or not set(tensors) <= set(made)
            or any(value.ndim != 2 for value in tensors.values())
        ):
            return None
        if self._args:
            return Probe((self._sequences_first(ids), *self._args[1:]), self._axis)
        named = {
            name: value for name, value in self._named.items() if not isinstance(value, Tensor)
        }
        return Probe(
            named | {name: self._sequences_first(made[name]) for name in tensors}, self._axis
        )

    @property
    def tells_padding(self) -> bool:
        """Whether it says which of its tokens are padding."""
        mask = self._named.get("attention_mask")
        is_named = self._documents is not None or (isinstance(mask, Tensor) and mask.ndim == 2)
        return self.ids is not None and is_named and self._second() is None

    def with_tokens(self, is_token: Tensor) -> Probe:
        """The same, knowing which positions (sequence, position) are not padding; documents begin
        where they did.
        """
        documents = (1 + self._document_starts(is_token)) * is_token
        return Probe(self._named or self._args, self._axis, documents)

    def tokens(self, counted: TokenStatistics | None) -> ProbeTokens | None:
        """What is known of the probe's tokens; None if it holds no token ids."""
        if self.ids is None:
            return None
        is_token = self._is_token()
        return _with_meaning(
            ProbeTokens(is_token, self._document_starts(is_token)), self.ids, counted
        )

    def decoder_tokens(self, counted: TokenStatistics | None) -> ProbeTokens | None:
        """The same of the second text of a model that has an encoder and a decoder:
        `decoder_input_ids`, or the second argument.
        """
        given = self._second()
        if given is None:
            return None
        mask = self._named.get("decoder_attention_mask")
        is_token = (
            given >= 0 if mask is None else (given >= 0) & self._sequences_first(mask).bool().cpu()
        )
        return _with_meaning(
            ProbeTokens(is_token, _first_tokens(is_token)), given.clamp_min(0), counted
        )

    def all_ids(self) -> np.ndarray:
        """Of both texts, in one row."""
        texts = (self.ids, self._second())
        return np.concatenate(
            [text.clamp_min(0).numpy().ravel() for text in texts if text is not None]
        )

    def documents(self) -> list[Any]:
        """Token ids of each sequence without padding."""
        return (
            [row[kept].numpy() for row, kept in zip(self.ids, self._is_token(), strict=True)]
            if self.ids is not None
            else []
        )

    def _checked_size(self) -> int:
        tensors = [
            value
            for value in (*self._args, *self._named.values())
            if isinstance(value, Tensor) and value.ndim > self._axis
        ]
        if not tensors:
            raise InputError(
                "the probe holds no tensor; it must be a batch that the model can be called with."
            )
        if any(tensor.is_meta for tensor in tensors):
            raise InputError(
                "the probe's tensors are on the device `meta`, which holds no numbers; give it tensors on another one."
            )
        if all(tensor.ndim == 1 for tensor in tensors):
            raise InputError(
                f"the probe has one axis, of shape {tuple(tensors[0].shape)}; it must be a batch, an axis of sequences before that "
                "of positions. For one sequence pass `probe[None]`."
            )
        if any(tensor.numel() == 0 for tensor in tensors):
            raise InputError(
                "the probe is empty; it must hold at least one sequence of at least one token."
            )
        return tensors[0].shape[self._axis]

    def _ids_in(self, value: Any) -> Tensor | None:
        """`value` as token ids (sequence, position), if that is what it is."""
        if (
            not isinstance(value, Tensor)
            or value.ndim != 2
            or value.is_floating_point()
            or value.dtype == torch.bool
        ):
            return None
        return self._sequences_first(value).detach().cpu().long()

    def _texts(self) -> list[str | int]:
        """Places of the text, and of a second one: where Transformers put them; else of arguments
        that are token ids, in their order, if there are no images or features. Ones and zeros
        beside them are a mask, and the tokens that come next are what the model is to say; neither
        is a text.
        """
        if {"input_ids", "decoder_input_ids"} & self._named.keys():
            return ["input_ids", "decoder_input_ids"]
        given: dict[Any, Any] = {**dict(enumerate(self._args)), **self._named}
        if self._named and any(
            isinstance(each, Tensor) and each.is_floating_point() and each.ndim > 2
            for each in given.values()
        ):
            return []
        found = {
            place: ids
            for place, value in given.items()
            if place not in _NO_TEXT and (ids := self._ids_in(value)) is not None
        }
        texts = [place for place, ids in found.items() if not bool(((ids == 0) | (ids == 1)).all())]
        texts = texts[:1] + [
            place for place in texts[1:] if not _are_next(found[texts[0]], found[place])
        ]
        return texts or (list(found)[:1] if self._args else [])

    def _text(self, number: int) -> Tensor | None:
        if number >= len(self._places):
            return None
        place = self._places[number]
        return self._ids_in(self._args[place] if isinstance(place, int) else self._named.get(place))

    def _second(self) -> Tensor | None:
        return self._text(1)

    def with_shorter_second(self) -> Probe | None:
        """Without the last position of the second text, which some models make from the first; None
        if it cannot be.
        """
        second = self._given if self._second() is None else self._second()
        if second is None or second.shape[1] < 2 or (self._args and self._second() is None):
            return None
        cut = self._sequences_first(second[:, :-1])
        if self._args:
            return Probe(
                tuple(
                    cut if place == self._places[1] else value
                    for place, value in enumerate(self._args)
                ),
                self._axis,
            )
        place = self._places[1] if len(self._places) > 1 else "decoder_input_ids"
        mask = self._named.get("decoder_attention_mask")
        masks = (
            {}
            if mask is None
            else {"decoder_attention_mask": mask.narrow(1 - self._axis, 0, second.shape[1] - 1)}
        )
        return Probe(self._named | {str(place): cut} | masks, self._axis)

    def _sequences_first(self, value: Tensor) -> Tensor:
        return value.T if self._axis == 1 else value

    def _is_token(self) -> Tensor:
        """False on padding: what `documents` or the attention mask says, and ids below zero."""
        mask = self._named.get("attention_mask")
        whole = torch.as_tensor(self._given, device="cpu") >= 0
        if self._documents is not None:
            return whole & (self._documents > 0)
        return (
            whole
            if mask is None or mask.ndim != 2
            else whole & self._sequences_first(mask).bool().cpu()
        )

    def _document_starts(self, is_token: Tensor) -> Tensor:
        """Where each token's document starts: where its number or its last position 0 begins, else
        at the first token.
        """
        positions = torch.arange(is_token.shape[1], device="cpu").expand_as(is_token)
        packed = self._named.get("position_ids")
        if self._documents is not None:
            begins = self._documents.diff(dim=1, prepend=self._documents[:, :1] - 1) != 0
            return torch.where(begins, positions, 0).cummax(dim=1).values
        if packed is not None and self._sequences_first(packed).shape in (
            is_token.shape,
            (1, is_token.shape[1]),
        ):
            return (positions - self._sequences_first(packed).cpu()).clamp_min(0)
        return _first_tokens(is_token)


class RepeatedProbe:
    """Random tokens of the probe, the same again and again: which heads find what came after a
    token before?

    `probe` has up to `_MOST_REPEATED` sequences, however many the probe has that it is made from,
    as long as those or of `_MOST_POSITIONS` tokens; in each, different tokens come in the same
    order over and over, as many as its entry of `periods` (sequence). These differ: a head that
    looks back by a fixed number of positions finds what it would in one of the sequences only.
    Tokens are drawn from those of the probe, so that the model knows them.
    """

    def __init__(self, probe: Probe, periods: Tensor) -> None:
        self.probe, self.periods = probe, periods

    @classmethod
    def of(
        cls, probe: Probe, longest: int = _MOST_POSITIONS, n_sequences: int | None = None
    ) -> RepeatedProbe | None:
        """None if the probe is not a text alone, or if fewer than `_LEAST_PERIODS` periods are
        possible: it is too short, has too few different tokens, or there are too few sequences;
        their number is chosen if it is not given.
        """
        known = np.unique(np.concatenate(probe.documents() or [np.zeros(0, np.int64)]))
        length = min(probe.n_positions, longest)
        possible = range(min(length // 2, len(known)), _LEAST_PERIOD - 1, -1)
        n_made = min(len(possible), _MOST_REPEATED) if n_sequences is None else n_sequences
        if min(len(possible), n_made) < _LEAST_PERIODS:
            return None
        rng = np.random.default_rng(0)
        periods = [possible[place % len(possible)] for place in range(n_made)]
        rounds = [np.resize(rng.choice(known, period, replace=False), length) for period in periods]
        made = probe.with_ids(torch.from_numpy(np.stack(rounds)))
        return None if made is None else cls(made, torch.tensor(periods, device="cpu"))


class LayerTokens:
    """What is known of the tokens that attention runs over: a model with encoder and decoder has
    two texts.

    Which of them are queries and keys is told by how many there are; where both texts are of one
    length, by what a shorter second text changes (`texts.py`). Names of modules tell nothing.
    """

    def __init__(self, model: nn.Module, probe: Probe, counted: TokenStatistics | None) -> None:
        makes_second = bool(
            getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        )  # unless it is given one
        self.text = None if counted is None else counted.text.token
        self._texts = {MAIN: probe.tokens(counted), SECOND: probe.decoder_tokens(counted)}
        self.has_second = self._texts[MAIN] is not None and (
            self._texts[SECOND] is not None or makes_second
        )
        self._roles: Mapping[
            str, tuple[str, str]
        ] = {}  # of layers: the texts of queries and keys, where lengths do not tell
        self._other: dict[
            str, ProbeTokens | None
        ] = {}  # of layers that run over neither text; None: it cannot be told

    @property
    def main(self) -> ProbeTokens | None:
        return self._texts[MAIN]

    @property
    def are_alike(self) -> bool:
        """Whether the two texts are of one length."""
        main, second = self._texts.values()
        return self.has_second and (
            main is None or second is None or main.is_token.shape[1] == second.is_token.shape[1]
        )

    def first(self) -> LayerTokens:
        """Of the first sequence alone."""
        alone = copy(self)
        alone._texts = {
            name: None if text is None else text.first() for name, text in self._texts.items()
        }
        alone._other = {
            layer: None if text is None else text.first() for layer, text in self._other.items()
        }
        return alone

    def tell(self, roles: Mapping[str, tuple[str, str]]) -> None:
        self._roles = roles

    def leave_out(self, seen: Mapping[str, Tensor]) -> None:
        """Padding of the second text, and of layers that run over neither (sequence, position):
        what is not seen.

        Where such layers of one length differ, some may be of queries on the keys of another text,
        and nothing is told of any.
        """
        second, left = self._texts[SECOND], seen.get(SECOND)
        if second is not None and left is not None:
            self._texts = self._texts | {
                SECOND: replace(second, is_token=left, document_start=_first_tokens(left))
            }
        others = {layer: left for layer, left in seen.items() if layer not in self._texts}

        def is_told(left: Tensor) -> bool:
            return all(
                torch.equal(left, other) for other in others.values() if other.shape == left.shape
            )

        self._other = {
            layer: ProbeTokens(left) if is_told(left) else None for layer, left in others.items()
        }

    def names(self, layer: str, call: AttentionCall) -> tuple[str, str]:
        """The texts of queries and keys; nothing for what is neither."""
        if not self.has_second:
            return MAIN, MAIN
        if self.are_alike:
            return self._roles.get(layer, ("", ""))
        lengths = {
            text.is_token.shape[1]: name for name, text in self._texts.items() if text is not None
        }
        return lengths.get(call.n_queries, ""), lengths.get(call.n_keys, "")

    def of(self, layer: str, call: AttentionCall) -> ProbeTokens | None:
        """None where nothing is known of the keys."""
        if layer in self._other:
            return self._other[layer]
        queries, keys = self.names(layer, call)
        known = self._texts.get(keys)
        if known is None or queries == keys:
            return known
        asking = self._texts.get(queries)
        is_token = None if asking is None else asking.is_token
        return replace(known, own_queries=False, query_is_token=is_token)

    def tells_padding(self, layer: str, call: AttentionCall) -> bool:
        """Whether queries that are padding can be left out: none are, or it is known which."""
        if not self._other and all(
            text is None or bool(text.is_token.all()) for text in self._texts.values()
        ):
            return True
        known = self.of(layer, call)
        if known is None or not known.fits(call):
            return False
        return known.is_square(call) or known.query_is_token is not None


def _are_next(ids: Tensor, others: Tensor) -> bool:
    """Whether the others are at each position the token that comes next, or below zero: left out of
    the loss.
    """
    if ids.shape != others.shape or ids.shape[1] < 2:
        return False
    return bool(((others[:, :-1] == ids[:, 1:]) | (others[:, :-1] < 0)).all())


@contextmanager
def _without_cache(model: nn.Module) -> Iterator[None]:
    """Transformers keep keys and values of all layers for a next call that a look does not make;
    the setting is put back.
    """
    config: Any = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    if before is True:
        config.use_cache = False
    try:
        yield
    finally:
        if before is True:
            config.use_cache = True


def held(value: Any) -> Any:
    """With tensors of its own: those that are given may be filled with the next batch."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(held(each) for each in value)
    return (
        {name: held(each) for name, each in value.items()} if isinstance(value, Mapping) else value
    )


def _fresh(value: Any) -> Any:
    """A copy for a pass to write into: caches of keys and values grow, masks may be filled in
    place.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(_fresh(each) for each in value)
    if isinstance(value, Mapping):
        return {name: _fresh(each) for name, each in value.items()}
    return _copied(value)


def _copied(value: Any) -> Any:
    """A deep copy without gradients: tensors that have some, in a cache made while training say,
    cannot be copied otherwise.
    """
    detached: dict[int, Any] = {}
    seen, waiting = set(), [value]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            detached[id(each)] = each.detach().clone()
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif hasattr(each, "__dict__") and not isinstance(each, type | nn.Module):
            waiting += vars(each).values()
    return deepcopy(value, detached)


def _with_meaning(tokens: ProbeTokens, ids: Tensor, counted: TokenStatistics | None) -> ProbeTokens:
    if counted is None:
        return tokens
    meaning = torch.stack([_meaning(told) for told in counted.informative_by_sequence(ids.numpy())])
    return replace(tokens, decile=torch.from_numpy(counted.decile)[ids], meaning=meaning)


def _meaning(told: np.ndarray) -> Tensor:
    """A byte for each pair of query and key: what is told itself would be four, and memory is what
    a look must spare.
    """
    kinds = np.array([DISTINCT, COMMON, UNKNOWN, BETWEEN], np.int8)
    return torch.from_numpy(
        np.select([told >= _DISTINCT, told <= _COMMON, np.isnan(told)], list(kinds[:3]), kinds[3])
    )


def _first_tokens(is_token: Tensor) -> Tensor:
    return is_token.int().argmax(dim=1, keepdim=True).expand_as(is_token)


def on_device_of(model: nn.Module, value: Any) -> Any:
    """Tensors, and containers of them, where the model's parameters are."""
    return _moved(
        value, next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    )


def _moved(values: Any, device: torch.device) -> Any:
    if isinstance(values, Mapping):
        return {name: _moved(value, device) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(_moved(value, device) for value in values)
    return values.to(device) if isinstance(values, Tensor) else values
