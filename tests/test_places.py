"""The user's cache is the user's alone, or is done without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saccade.data.text.cache import cache_folder
from saccade.places import user_cache


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode(path) -> int:
    return path.stat().st_mode & 0o777


def test_the_cache_is_for_its_user_alone_whatever_the_umask_and_earlier_modes(home):
    before = os.umask(0)
    try:
        assert user_cache("jax") == home / "saccade" / "jax"
        assert mode(home / "saccade") == mode(home / "saccade" / "jax") == 0o700
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                Path, "chmod", lambda *_: None
            )  # from the first moment on, not only after it was changed
            assert mode(user_cache("corpora")) == 0o700
        (home / "saccade" / "jax").chmod(0o777)
        assert mode(user_cache("jax")) == 0o700
    finally:
        os.umask(before)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
@pytest.mark.parametrize("whose", ["saccade", "saccade/corpora"])
def test_a_cache_that_another_user_owns_is_not_used(home, whose):
    (home / whose).mkdir(parents=True)
    os.chown(home / whose, 12345, 12345)
    assert user_cache("corpora") is None
    assert not cache_folder(None).is_relative_to(home)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give links away")
def test_a_link_of_another_user_is_not_followed(home, tmp_path):
    (home).mkdir()
    (tmp_path / "mine").mkdir()
    (home / "saccade").symlink_to(tmp_path / "mine")
    assert user_cache("jax") is not None  # a link of one's own may be
    os.chown(home / "saccade", 12345, 12345, follow_symlinks=False)
    assert user_cache("jax") is None


def test_without_a_place_there_is_none(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert user_cache("jax") is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(
        "saccade.places.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home"))
    )
    assert user_cache("jax") is None


def test_a_shared_folder_that_is_asked_for_keeps_its_mode(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o775)
    assert mode(cache_folder(tmp_path / "shared")) == 0o775
