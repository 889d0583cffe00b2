"""What the source promises of itself: one place for revisions, floors, nothing hidden in contexts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import mcpcore
from mcpcore.revisions import REVISIONS

ROOT = Path(mcpcore.__file__).parent
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
FLOOR_0 = ("errors.py", "jsonrpc.py", "types/", "rules.py", "revisions.py", "codec.py")
FLOOR_1 = ("protocol/", "validation.py")


def on(floor: tuple[str, ...]) -> dict[str, ast.Module]:
    return {name: tree for name, tree in TREES.items() if name.startswith(floor)}


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every string in `tree` that is no docstring, of a member or an attribute included."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and id(node) not in docstrings:
            yield node


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that `tree` imports, within functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_is_something_to_look_at() -> None:
    assert len(on(FLOOR_0)) >= 12
    assert len(on(FLOOR_1)) >= 9
    assert any("2025-11-25" in str(node.value) for node in literals(TREES["revisions.py"]))


def test_revisions_are_named_in_one_place() -> None:
    found = [
        f"{name}:{node.lineno}: {node.value!r}"
        for name, tree in TREES.items()
        if name != "revisions.py"
        for node in literals(tree)
        if any(revision in str(node.value) for revision in REVISIONS)
    ]
    assert found == []


def test_nothing_hides_in_context_variables() -> None:
    """Contexts may be passed on, as a task's start does; none of our own state lives in one."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "ContextVar")
        or (isinstance(node, ast.Attribute) and node.attr == "ContextVar")
        or (isinstance(node, ast.alias) and node.name.endswith("ContextVar"))
    ]
    assert found == []


def test_the_model_imports_the_standard_library_msgspec_and_itself() -> None:
    below = tuple("mcpcore." + part.removesuffix(".py").rstrip("/") for part in FLOOR_0)
    for name, tree in on(FLOOR_0).items():
        for module in imported(tree):
            top = module.split(".")[0]
            fine = top in sys.stdlib_module_names or top == "msgspec"
            mine = module == "mcpcore" or module.startswith(below)
            assert fine or mine, f"{name} imports {module}"


def test_the_protocol_imports_the_model_and_itself() -> None:
    below = tuple("mcpcore." + part.removesuffix(".py").rstrip("/") for part in FLOOR_0 + FLOOR_1)
    for name, tree in on(FLOOR_1).items():
        allowed = {"msgspec"} | (
            {"jsonschema", "referencing"} if name == "validation.py" else set()
        )
        for module in imported(tree):
            top = module.split(".")[0]
            fine = top in sys.stdlib_module_names or top in allowed
            mine = module == "mcpcore" or module.startswith(below)
            assert fine or mine, f"{name} imports {module}"


def test_model_and_protocol_do_no_input_and_output() -> None:
    """Sans-IO: what would wait or write is not even imported."""
    waiting = {"trio", "asyncio", "threading", "socket", "subprocess", "time", "select", "io", "os"}
    for name, tree in on(FLOOR_0 + FLOOR_1).items():
        used = {module.split(".")[0] for module in imported(tree)} & waiting
        assert not used, f"{name} imports {used}"
        for node in ast.walk(tree):
            assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{name}:{node.lineno}"
