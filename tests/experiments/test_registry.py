"""The registry: every line leads to one experiment of that name, listing imports none of them, and
a file of one's own is found.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, REAL_TEXT, experiment, finding_of, module_of
from saccade.lab.protocol import Experiment


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_states_its_finding_first(name):
    asked = experiment(name)
    assert isinstance(asked, Experiment)
    assert asked.name == name
    assert finding_of(name).endswith(".")
    assert (
        len(sys.modules[module_of(name)].__doc__.strip().splitlines()) <= 8
    )  # what is asked, how, and what to expect
    assert asked.caption
    assert (
        asked.settings() == asked.settings()
    )  # settings have values that can be compared, and defaults for all


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_caption_names_panels_by_number_as_a_page_places_them_by_its_width(name):
    """Nor does it call ink black, which is white on a dark page."""
    caption = experiment(name).caption
    assert (
        not isinstance(caption, str)
        or re.findall(r"\b(?:Above|Below|Left|Middle|Right|Bottom|Top)\b[:,]|\bblack\b", caption)
        == []
    )


@pytest.mark.parametrize("name", REAL_TEXT)
def test_an_experiment_on_text_asks_a_question_and_says_what_would_change_its_answer(name):
    asked = experiment(name)
    assert asked.question.endswith("?")
    assert asked.caveat.endswith(".")


@pytest.mark.parametrize("command", ["list", "--help"])
def test_listing_imports_no_experiment_and_no_arrays(command):
    code = (
        f"import sys; from saccade.cli import main; main(['{command}']);"
        "heavy = ('jax', 'torch', 'numpy', 'scipy', 'pandas', 'xarray', 'matplotlib', 'saccade.experiments.', 'saccade.dynamics');"
        "loaded = [m for m in sys.modules if m.startswith(heavy)];"
        "print(loaded, file=sys.stderr); sys.exit(bool(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_without_an_experiment_is_one_sentence(tmp_path):
    file = tmp_path / "mine.py"
    made = "from dataclasses import make_dataclass\nfrom saccade import Experiment\n"
    wrong = {
        '"""Nothing."""\n': "must define EXPERIMENT = Experiment",
        "\nimport no_such_module_anywhere\n": "mine.py, line 2, cannot be loaded: ModuleNotFoundError",
        "def measure(:\n": r"cannot be loaded: SyntaxError: .*line 1",
        f"{made}EXPERIMENT = Experiment('../up', make_dataclass('S', []), None, None, None)": "usable as a folder name",
        f"{made}EXPERIMENT = Experiment('depth', make_dataclass('S', []), None, None, None)": "one of Saccade's experiments",
        f"{made}EXPERIMENT = Experiment('mine', dict, None, None, None)": "must be a dataclass",
        f"{made}EXPERIMENT = Experiment('mine', make_dataclass('S', []), None, None, None)": "must be a frozen dataclass",
        f"{made}EXPERIMENT = Experiment('mine', make_dataclass('S', ['t1'], frozen=True), None, None, None)": "t1 has none",
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
    with pytest.raises(InputError, match=r"give its name with the ending: \./mine\.py"):
        experiment("mine")


def test_every_experiment_has_a_title_that_fits_a_line_of_the_menu():
    titles = [entry.title for entry in EXPERIMENTS.values()]
    assert all(0 < len(title) <= 28 for title in titles)
    assert len(set(titles)) == len(titles)
