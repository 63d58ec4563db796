"""Finding pipelines: in a file, in a module, or by the entry points of installed packages."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from takeup.core.errors import InvalidPipeline, TakeupError, UnknownPipeline
from takeup.core.pipeline import Pipeline

GROUP = "takeup.pipelines"
"""The entry-point group by which installed packages offer pipelines."""
INSTALLED = "*"
"""The source that stands for everything installed."""
OURS = "takeup.pipelines.transcode"
"""The pipelines that make streams of videos."""

IMPORTABLE = "Correct it, so that Python can import it."


def load_all(sources: Iterable[str]) -> dict[str, Pipeline]:
    """Every pipeline that these sources declare, by name; two of one name are refused."""
    found: dict[str, Pipeline] = {}
    for source in sources:
        for pipeline in load(source):
            if found.setdefault(pipeline.name, pipeline) is not pipeline:
                raise InvalidPipeline(f"two pipelines are named {pipeline.name}; the second is in {source}")
    return found


def load(source: str) -> list[Pipeline]:
    """The pipelines of `FILE.py`, `FILE.py:NAME`, `package.module[:NAME]`, or `*` for all installed ones."""
    if source == INSTALLED:
        return [_installed(point.name, point.value) for point in entry_points(group=GROUP)]
    place, name = _split(source)
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    pipelines = _declared(module)
    if name is None:
        if not pipelines:
            raise UnknownPipeline(f'{place} declares no pipeline; write `name = Pipeline("name")` in it')
        return pipelines
    chosen = [p for p in pipelines if p.name == name] or [
        p for p in pipelines if getattr(module, name, None) is p
    ]
    if not chosen:
        known = ", ".join(p.name for p in pipelines) or "none"
        raise UnknownPipeline(f"{place} declares no pipeline {name!r}; it declares: {known}")
    return chosen[:1]


def load_one(source: str) -> Pipeline:
    """The one pipeline that the source names, or an error that lists the choice."""
    pipelines = load(source)
    if len(pipelines) > 1:
        names = ", ".join(p.name for p in pipelines)
        raise UnknownPipeline(
            f"{source} declares several pipelines; say which: {source}:NAME with one of {names}"
        )
    return pipelines[0]


def installed_pipeline(name: str) -> Pipeline:
    """The installed pipeline of this name."""
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise UnknownPipeline(
            f"no installed pipeline is named {name!r} (installed: {known}); one of your own is FILE.py:NAME"
        )
    return _installed(name, points[name])


def absolute(source: str) -> str:
    """The same source for a process with another working directory."""
    place, name = _split(source)
    if not place.endswith(".py"):
        return source
    return str(Path(place).resolve()) + ("" if name is None else f":{name}")


def _installed(name: str, value: str) -> Pipeline:
    module_name, _, attribute = value.partition(":")
    pipeline = getattr(_import_module(module_name), attribute, None)
    if not isinstance(pipeline, Pipeline):
        raise InvalidPipeline(f"the entry point {name} = {value!r} is no pipeline")
    return pipeline


def _split(source: str) -> tuple[str, str | None]:
    place, colon, name = source.rpartition(":")
    return (place, name) if colon else (source, None)


def _declared(module: ModuleType) -> list[Pipeline]:
    found: dict[int, Pipeline] = {}
    for value in vars(module).values():
        if isinstance(value, Pipeline):
            found[id(value)] = value
    return list(found.values())


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownPipeline(
            f"there is no file {path}", advice="Check the path to the file of your pipeline."
        )
    name = f"takeup_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UnknownPipeline(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except TakeupError as error:
        raise InvalidPipeline(f"{path}: {error}{_line_in(path, error)}", advice=error.help) from error
    except SystemExit as error:
        raise InvalidPipeline(
            f"{path} ends the process when it is imported (exit {error.code})", advice=IMPORTABLE
        ) from error
    except Exception as error:
        raise InvalidPipeline(
            f"{path} cannot be imported: {_describe(error)}{_line_in(path, error)}", advice=IMPORTABLE
        ) from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UnknownPipeline(
                f"there is no module {name}; a file is written with .py at its end"
            ) from error
        raise InvalidPipeline(
            f"module {name} cannot be imported: {_describe(error)}", advice=IMPORTABLE
        ) from error
    except (ValueError, TypeError) as error:
        raise UnknownPipeline(f"{name!r} names no module") from error
    except Exception as error:
        raise InvalidPipeline(
            f"module {name} cannot be imported: {_describe(error)}", advice=IMPORTABLE
        ) from error


def _describe(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _line_in(path: Path, error: Exception) -> str:
    """Where in the file itself the import failed."""
    if isinstance(error, SyntaxError):
        return ""
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()
    ]
    return f" (line {lines[-1]})" if lines else ""
