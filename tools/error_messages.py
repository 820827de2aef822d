"""Every error that Saccade raises, read from the syntax tree of its source: what it says, where, and when.

`{words}` in a message stand for what is put in. "When" is the condition around the `raise`, as the code has it: the `if` it stands
under, or what was caught. Formatting of the source changes nothing here. Not here: errors of libraries that pass through.
"""

from __future__ import annotations

import ast
import html
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KINDS = {
    "InputError": "input that cannot be used; the command line prints it and exits with code 2",
    "UnfaithfulError": "what was seen of a model is not what it computes; nothing is recorded",
    "UnreadableError": "a checkpoint that is left out of a series; the record's findings say so",
    "UnreachableError": "the same, of a hub that does not answer",
    "ImportError": "an extra that is not installed",
}
_LONGEST = 110  # characters of a condition: beyond it the eye reads the code instead


class Message(NamedTuple):
    kind: str
    says: str
    raised_in: str
    when: str


def messages_part(package: Path) -> str:
    """Markdown: a heading for each file that raises, its first sentence, and a table."""
    sections = [_section(path, package) for path in sorted(package.rglob("*.py"))]
    return "\n".join(section for section in sections if section) + "\n"


def messages_of(tree: ast.Module) -> list[Message]:
    return list(_walk(tree, function="", when=""))


def _section(path: Path, package: Path) -> str:
    tree = ast.parse(path.read_text("utf-8"))
    found = list(dict.fromkeys(messages_of(tree)))
    if not found:
        return ""
    scope = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split()).replace("<", "&lt;")
    rows = [f"| {_cell(one.says)} | {_kind(one)}{_code(one.raised_in)} | {_code(one.when) or 'otherwise'} |" for one in found]
    head = ["| says | raised by | when |", "|---|---|---|"]
    return "\n".join([f"### `{path.relative_to(package.parent).as_posix()}`", "", scope, "", *head, *rows, ""])


def _walk(node: ast.AST, function: str, when: str) -> Iterator[Message]:
    if isinstance(node, ast.Raise) and (message := _message(node, function, when)):
        yield message
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function, when = node.name, ""
    for field, value in ast.iter_fields(node):
        inside = _condition(node, field) or when
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, function, inside)


def _condition(node: ast.AST, field: str) -> str:
    """What is known to be so in one field of a node; nothing if that adds nothing."""
    if isinstance(node, ast.If) and field == "body":
        return ast.unparse(node.test)
    if isinstance(node, ast.If) and field == "orelse":
        return f"not ({ast.unparse(node.test)})"
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        return f"caught: {ast.unparse(node.type)}"
    return ""


def _message(node: ast.Raise, function: str, when: str) -> Message | None:
    call = node.exc
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in KINDS:
        return None
    says = _template(call.args[0]) if call.args else ""
    return Message(call.func.id, " ".join(says.split()), function, when)


def _template(node: ast.expr) -> str:
    """A message with {words} for what is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.IfExp):
        return _template(node.body) or _template(node.orelse)
    return "{" + _word(node.value if isinstance(node, ast.FormattedValue) else node) + "}"


def _word(node: ast.expr) -> str:
    """What is put in, named by the last word of the expression that gives it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _word(node.value)
    if isinstance(node, ast.BoolOp):
        return _word(node.values[0])
    if isinstance(node, ast.Call) and node.args:
        return _word(node.args[0])
    return _word(node.func) if isinstance(node, ast.Call) else "..."


def _kind(message: Message) -> str:
    return "" if message.kind == "InputError" else f"{message.kind} in "


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _code(text: str) -> str:
    if not text:
        return ""
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    if "|" not in short:
        return f"`{short}`"
    return f"<code>{html.escape(short, quote=False)}</code>".replace("|", "&#124;")  # a bar would end the cell
