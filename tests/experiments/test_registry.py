"""The registry: every line leads to one experiment of that name, listing imports none of them, and a file of one's own is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, experiment, finding_of
from saccade.lab.experiment import Experiment


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_states_its_finding_first(name):
    asked = experiment(name)
    assert isinstance(asked, Experiment)
    assert asked.name == name
    assert finding_of(name).endswith(".")
    assert asked.caption
    assert asked.settings() == asked.settings()  # settings have values that can be compared, and defaults for all


def test_listing_imports_no_experiment_and_no_jax():
    code = (
        "import sys; from saccade.cli import main; main(['list', '--json']);"
        "loaded = [m for m in sys.modules if m.startswith(('jax', 'torch', 'saccade.experiments.', 'saccade.dynamics'))];"
        "print(loaded, file=sys.stderr); sys.exit(bool(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_without_an_experiment_is_one_sentence(tmp_path):
    empty, wrong = tmp_path / "empty.py", tmp_path / "wrong.py"
    empty.write_text('"""Nothing."""\n')
    wrong.write_text("import no_such_module_anywhere\n")
    with pytest.raises(InputError, match="must define one Experiment; it defines 0"):
        experiment(str(empty))
    with pytest.raises(InputError, match="cannot be loaded: ModuleNotFoundError"):
        experiment(str(wrong))
    with pytest.raises(InputError, match="there is no file"):
        experiment(str(tmp_path / "missing.py"))
