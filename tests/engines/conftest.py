"""C code for the tests: as it was installed; where there is none, built for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def hook() -> Iterator[ModuleType]:
    """`hatch_build.py` as a module; it needs Hatch's base class only when Hatch calls it."""
    import saccade

    if not (ROOT / "hatch_build.py").exists() or ROOT not in Path(saccade.__file__).parents:
        pytest.skip("the build hook belongs to the source folder; an installed package is tested")
    stub = ModuleType("interface")
    stub.BuildHookInterface = object  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", stub)
        patch.syspath_prepend(ROOT)
        yield importlib.import_module("hatch_build")


@pytest.fixture(scope="session")
def built(request, tmp_path_factory):
    """`with built(engine):` the engine's library is there."""

    @contextmanager
    def library_of(engine: ModuleType) -> Iterator[None]:
        if engine._library() is not None:
            yield
            return
        library = tmp_path_factory.mktemp("built") / engine.LIBRARY.name
        if not request.getfixturevalue("hook").compiled(engine.SOURCE, library):
            pytest.skip("no C compiler")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "LIBRARY", library)
            engine._library.cache_clear()
            assert engine._library() is not None
            yield
        engine._library.cache_clear()

    return library_of
