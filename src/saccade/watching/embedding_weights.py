"""Token embedding and unembedding of a PyTorch model: asked for where it can tell (Transformers),
else found by kind and name.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from saccade.watching.plain_weights import Unreadable, plain_weight

_EMBEDDINGS = (
    "wte",
    "embed_tokens",
    "embed_in",
    "word_embeddings",
    "tok_embeddings",
    "token_embedding",
    "tok_emb",
    "embedding",
)
_NOT_TOKENS = (
    "pos",
    "wpe",
    "type",
    "segment",
    "relative",
)  # in names of embeddings of something else
_UNEMBEDDINGS = ("lm_head", "embed_out", "unembedding", "unembed", "output", "head")


def embedding_weights(model: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """`embedding` and `unembedding` (token, width), and a sentence for each that is not found. Tied
    weights are the same tensor.
    """
    found: dict[str, Tensor] = {}
    unrecognised: list[str] = []
    try:
        found["embedding"] = plain_weight("it", _embedding(model))
        found["unembedding"] = plain_weight("it", _unembedding(model, len(found["embedding"])))
    except Unreadable as reason:
        missing = "unembedding" if found else "embedding"
        unrecognised.append(f"{missing}: {reason}.")
    return found, unrecognised


def _embedding(model: nn.Module) -> nn.Module:
    given = _asked(model, "get_input_embeddings")
    if isinstance(given, nn.Embedding):
        return given
    every = {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Embedding)
    }
    of_tokens = {
        name: module
        for name, module in every.items()
        if not any(word in _last(name) for word in _NOT_TOKENS)
    }
    return _only(of_tokens, _EMBEDDINGS, f"nn.Embedding of tokens, of {len(every)} embeddings")


def _unembedding(model: nn.Module, n_vocab: int) -> nn.Module:
    given = _asked(model, "get_output_embeddings")
    if isinstance(given, nn.Module):
        return given
    linear = {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)
    }
    to_tokens = {name: module for name, module in linear.items() if module.out_features == n_vocab}
    return _only(
        to_tokens, _UNEMBEDDINGS, f"nn.Linear with an output for each of the {n_vocab} tokens"
    )


def _only(candidates: dict[str, Any], known: tuple[str, ...], what: str) -> nn.Module:
    """The one candidate there is, or the one with a known name."""
    named = {name: module for name, module in candidates.items() if _last(name) in known}
    for choice in (candidates, named):
        if len(choice) == 1:
            return next(iter(choice.values()))
    if not candidates:
        raise Unreadable(f"the model has no {what}")
    raise Unreadable(
        f"{', '.join(candidates)} could each be the {what}; none or several have a name that is known"
    )


def _asked(model: nn.Module, method: str) -> object:
    """Transformers' models know theirs; some answer that they have none, some raise."""
    try:
        return getattr(model, method)()
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _last(name: str) -> str:
    return name.rpartition(".")[2].lower()
