"""What the tree must look like: a rule takes the root of a tree and returns what breaks it, line by line."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CODE_FOLDERS = ("src", "tests", "bench", "scripts")
CODE_SUFFIXES = {".py", ".sql", ".sh", ".js", ".css", ".html", ""}
TEXT_SUFFIXES = CODE_SUFFIXES | {".md", ".toml", ".txt", ".in", ".ini", ".yaml", ".yml", ".json"}
SKIPPED_FOLDERS = {"__pycache__", "build", "dist", "node_modules"}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
BANNED_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "util", "utils"}
IMPURE_MODULES = {"random", "time"}
IMPURE_NAMES = {"date.today", "datetime.now", "datetime.today", "datetime.utcnow", "os.environ", "os.getenv"}
LOCK_FILES = ("requirements/*", "*.lock", "*-lock.json", "ui/*-lock.json", "tests/browser/*-lock.json")

# Written so that no pattern matches its own text.
MACHINE_PATH = re.compile(r"(?<![\w.}])/(work|root|home)/")
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
ADDRESS = re.compile(r"https?[:]//|--(extra-)?index-url|--find-links|--trusted-host")


def long_files(root: Path) -> list[str]:
    counts = {path: len(path.read_text().splitlines()) for path in code_files(root)}
    return [
        f"{path}: {count} lines, over {FILE_LINES_MAX}: split it by what its parts do"
        for path, count in counts.items()
        if count > FILE_LINES_MAX
    ]


def long_functions(root: Path) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name} has {body_lines(node)} lines, over {FUNCTION_LINES_MAX}"
        for path, tree in modules(root, "src", "tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if body_lines(node) > FUNCTION_LINES_MAX
    ]


def banned_names(root: Path) -> list[str]:
    return [
        f"{path}: a module is named after what it does, not {part.removesuffix('.py')!r}"
        for path, _ in modules(root, *CODE_FOLDERS)
        for part in path.relative_to(root).parts
        if part.removesuffix(".py") in BANNED_NAMES
    ]


def missing_docstrings(root: Path) -> list[str]:
    return [
        f"{path}: a module says in a docstring what it is"
        for path, tree in modules(root, "src")
        if not ast.get_docstring(tree)
    ]


def impure_core(root: Path) -> list[str]:
    return [
        f"{path}:{line}: core is pure (standard library, no clock, no chance, no files), so no {name}"
        for path, tree in modules(root, "src/takeup/core")
        for line, name in impure_uses(tree)
    ]


def machine_paths(root: Path) -> list[str]:
    return matches(text_files(root), MACHINE_PATH, "a path of somebody's machine")


def unfinished(root: Path) -> list[str]:
    return matches(text_files(root), UNFINISHED, "finish it or write an issue")


def addresses(root: Path) -> list[str]:
    locks = [path for pattern in LOCK_FILES for path in sorted(root.glob(pattern)) if path.is_file()]
    return matches(locks, ADDRESS, "pins carry hashes, never where to fetch from")


def code_files(root: Path) -> list[Path]:
    return [
        path
        for folder in CODE_FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path.suffix in CODE_SUFFIXES and not is_skipped(path.relative_to(root))
    ]


def text_files(root: Path) -> list[Path]:
    """Everything of ours that is text, dot folders and environments left out."""
    return [
        path
        for path in [*sorted(root.glob("*")), *sorted(root.glob("[!.]*/**/*"))]
        if path.is_file() and path.suffix in TEXT_SUFFIXES
        if not is_skipped(path.relative_to(root)) and not path.name.startswith(".")
    ]


def is_skipped(path: Path) -> bool:
    return not SKIPPED_FOLDERS.isdisjoint(path.parts)


def modules(root: Path, *folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, its docstring not counted."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return lines


def impure_uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names if is_foreign(alias.name)]
            case ast.ImportFrom(module=str(module)):
                names = [module] if is_foreign(module) else []
                names += [full for alias in node.names if (full := f"{module}.{alias.name}") in IMPURE_NAMES]
            case ast.Attribute():
                tail = ".".join(ast.unparse(node).split(".")[-2:])
                names = [tail] if tail in IMPURE_NAMES else []
            case ast.Call(func=ast.Name(id="open")):
                names = ["open"]
            case _:
                continue
        yield from ((node.lineno, name) for name in names)


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top in IMPURE_MODULES or top not in {"takeup", *sys.stdlib_module_names}


def matches(paths: list[Path], pattern: re.Pattern[str], why: str) -> list[str]:
    return [
        f"{path}:{number}: {found.group()!r}: {why}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := pattern.search(line))
    ]


RULES = (
    long_files,
    long_functions,
    banned_names,
    missing_docstrings,
    impure_core,
    machine_paths,
    unfinished,
    addresses,
)
