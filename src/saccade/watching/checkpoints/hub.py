"""Revisions of a model on the Hugging Face hub, fetched into its usual cache one after the other."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from saccade.errors import InputError, shortened
from saccade.watching.checkpoints.files import (
    Checkpoint,
    UnreachableError,
    UnreadableError,
    in_order,
)

_ABOUT = ["*.json", "tokenizer*", "vocab*", "merges*", "spiece.model", "*.py"]


def is_hub_id(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) is not None


def hub_checkpoints(model_id: str, revisions: list[str]) -> tuple[list[Checkpoint], list[str]]:
    """A checkpoint for each revision; nothing is fetched yet."""
    if not is_hub_id(model_id):
        raise InputError(
            f"{shortened(model_id)} is neither a folder here nor the name of a model on the hub."
        )
    return in_order([(revision, partial(_fetched, model_id, revision)) for revision in revisions])


def _fetched(model_id: str, revision: str) -> Path:
    """The folder of a revision. PyTorch's own files are fetched only if there are no safetensors."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import RevisionNotFoundError
    except ImportError:
        raise InputError(
            "fetching from the hub needs huggingface_hub: pip install huggingface_hub"
        ) from None
    try:
        for weights in ("model*.safetensors", "pytorch_model*.bin"):
            folder = Path(
                huggingface_hub.snapshot_download(
                    model_id, revision=revision, allow_patterns=[*_ABOUT, weights]
                )
            )
            if any(folder.glob(weights)):
                break
        return folder
    except RevisionNotFoundError:
        raise UnreadableError(
            f"{revision} was left out: {model_id} has no such revision on the hub."
        ) from None
    except (
        Exception
    ) as error:  # the network and the hub fail in many ways, not all of them OSErrors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UnreachableError(
            f"revision {revision} of {model_id} could not be fetched from the hub ({reason}); is there a network, is it the name?"
        ) from None
