"""The notebooks in `examples`, made from its scripts and run: `python -m tools.notebooks
[NAME.ipynb]` after a script has changed.

A script is cut at its `# %%` lines. What stands there, and in the comment below, becomes a cell of
text, what follows a cell of code; the docstring opens the script's part. A cell of code under
`Solution` is folded away. Every notebook begins with a cell that installs Saccade from the folder
above it, and carries what its cells printed and drew, and their hash.
"""

import ast
import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = {
    "lesson.ipynb": ("lesson.py",),
    "test_a_theory.ipynb": ("scan_then_snap.py", "your_own_classes.py", "check_a_variant.py"),
    "watch_a_model.ipynb": ("watch_nanogpt.py", "checkpoint_series.py"),
}
INSTALL = "# Once, in a new environment:\n# %pip install --quiet ..{extra}"
_EXTRAS = {"watch_a_model.ipynb": "[torch]"}
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_FOLDED = {
    "jupyter": {"source_hidden": True, "outputs_hidden": True},
    "tags": ["solution", "hide-input"],
}


def cells_of(script: str) -> list[tuple[str, str]]:
    """(kind, text) of every cell of a script; the kinds are markdown, code and solution."""
    docstring = ast.get_docstring(ast.parse(script)) or ""
    title, _, rest = docstring.partition("\n\n")
    body = script.split('"""', 2)[2]
    first, *others = body.split("\n# %% ")
    found = [("markdown", f"# {' '.join(title.split())}\n\n{rest}"), ("code", first)]
    for part in others:
        text = re.match(r".*\n(# .*\n)*", part)[0]
        heading = re.sub(r"^# ", "\n", text, flags=re.MULTILINE)
        if heading.startswith("Solution: "):  # folded away too, as a comment
            found += [
                ("markdown", "**Solution**, folded away:"),
                ("solution", f"# {part.removeprefix('Solution: ')}"),
            ]
        else:
            found += [("markdown", heading), ("code", part.removeprefix(text))]
    return [(kind, text.strip("\n")) for kind, text in found]


def notebook_of(name: str) -> dict[str, Any]:
    """A notebook of all cells of its scripts, not yet run."""
    scripts = [(FOLDER / script).read_text(encoding="utf-8") for script in NOTEBOOKS[name]]
    found = [
        ("code", INSTALL.format(extra=_EXTRAS.get(name, ""))),
        *(cell for script in scripts for cell in cells_of(script)),
    ]
    cells = []
    for number, (kind, text) in enumerate(found):
        metadata = _FOLDED if kind == "solution" else {}
        cell = {
            "cell_type": "markdown" if kind == "markdown" else "code",
            "id": f"cell-{number}",
            "metadata": metadata,
            "source": text,
        }
        cells.append(
            cell | ({} if kind == "markdown" else {"execution_count": None, "outputs": []})
        )
    metadata = {
        "kernelspec": _KERNEL,
        "ran": hashlib.sha256(json.dumps(cells).encode()).hexdigest(),
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def run(name: str) -> str:
    """The notebook with what its cells print and draw, in a kernel of its own, as text."""
    import nbformat  # the extra `notebooks`; what a notebook should hold can be told without it
    from nbclient import NotebookClient

    notebook = nbformat.from_dict(notebook_of(name))
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was
    notebook.metadata.pop("language_info", None)
    return nbformat.writes(notebook) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:] or NOTEBOOKS:
        (FOLDER / name).write_text(run(name), encoding="utf-8")
        print(FOLDER / name)
