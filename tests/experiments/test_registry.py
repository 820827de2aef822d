"""The registry: every name leads to one experiment, listing imports none of them, and a user's own
file is found.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, experiment, module_of

OWN = "import saccade\n@saccade.experiment({name!r})\ndef f(lab, t1{default}):\n    'Is it?'\n"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_name_leads_to_its_experiment(name):
    asked = experiment(name)
    assert asked.name == name
    assert asked.settings() == asked.settings()  # comparable, with defaults for all
    assert sys.modules[module_of(name)].__doc__


@pytest.mark.parametrize("command", ["list", "--help"])
def test_listing_imports_no_experiment_and_no_arrays(command):
    code = (
        f"import sys; from saccade.cli import main; main(['{command}']);"
        "heavy = ('jax', 'torch', 'numpy', 'scipy', 'pandas', 'xarray', 'matplotlib',"
        "'saccade.experiments.', 'saccade.engines');"
        "loaded = [m for m in sys.modules if m.startswith(heavy)];"
        "print(loaded, file=sys.stderr); sys.exit(bool(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_without_an_experiment_is_one_sentence(tmp_path):
    file = tmp_path / "mine.py"
    wrong = {
        '"""Nothing."""\n': "must define one experiment",
        "\nimport no_such_module_anywhere\n": "mine.py, line 2, cannot be loaded: ModuleNotFound",
        "def measure(:\n": r"cannot be loaded: SyntaxError: .*line 1",
        OWN.format(name="../up", default=": float = 1"): "usable as a folder name",
        OWN.format(name="adam", default=": float = 1"): "one of Saccade's experiments",
        OWN.format(name="mine", default="=1"): "needs a type and a default",
        OWN.format(name="mine", default=": float"): "needs a type and a default",
    }
    for text, sentence in wrong.items():
        file.write_text(text)
        with pytest.raises(InputError, match=sentence):
            experiment(str(file))
        assert str(file) not in sys.modules or "cannot be loaded" not in sentence
    with pytest.raises(InputError, match="there is no file"):
        experiment(str(tmp_path / "missing.py"))


def test_a_file_named_without_its_ending_is_pointed_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    with pytest.raises(InputError, match=re.escape("give its name with the ending: ./mine.py")):
        experiment("mine")
