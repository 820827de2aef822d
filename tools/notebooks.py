"""The notebooks in `examples`, made from its scripts: `python -m tools.notebooks` after a script has changed.

A script is cut at its `# %%` lines. What stands on such a line becomes a cell of text, what follows it a cell of code; the
docstring opens the script's part. Outputs are left empty, so that a notebook differs only where a script does.
"""

import ast
import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = {
    "test_a_theory.ipynb": ("scan_then_snap.py", "your_own_classes.py", "check_a_variant.py"),
    "watch_a_model.ipynb": ("watch_nanogpt.py", "checkpoint_series.py"),
}
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def cells_of(script: str) -> list[tuple[str, str]]:
    """(kind, text) of every cell of a script."""
    docstring = ast.get_docstring(ast.parse(script)) or ""
    title, _, rest = docstring.partition("\n")
    body = script.split('"""', 2)[2]
    first, *others = body.split("\n# %% ")
    found = [("markdown", f"# {title}\n{rest}"), ("code", first)]
    for part in others:
        heading, _, code = part.partition("\n")
        found += [("markdown", heading), ("code", code)]
    return [(kind, text.strip("\n")) for kind, text in found]


def notebook_of(scripts: list[str]) -> str:
    """A notebook of all cells of some scripts, as JSON."""
    cells = []
    for number, (kind, text) in enumerate(cell for script in scripts for cell in cells_of(script)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    notebook = {"cells": cells, "metadata": {"kernelspec": _KERNEL}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def made() -> dict[str, str]:
    """Every notebook by its file name."""
    return {
        name: notebook_of([(FOLDER / script).read_text(encoding="utf-8") for script in scripts])
        for name, scripts in NOTEBOOKS.items()
    }


if __name__ == "__main__":
    for name, text in made().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
