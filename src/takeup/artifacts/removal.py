"""The folders of attempts; one is removed under another name, so no half of it can be taken for whole."""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from takeup.artifacts.files import sync_folder
from takeup.artifacts.layout import TaskFolder
from takeup.core.points import point

TRASH = ".trash."
"""How the name of a folder begins that only waits for its removal."""


def task_folders(parent: Path) -> list[TaskFolder]:
    """The folders of attempts in here, in order; anything else is passed over."""
    try:
        return sorted(folder for path in parent.iterdir() if (folder := TaskFolder.parse(path.name)))
    except FileNotFoundError:
        return []


def remove(path: Path, trash: Path) -> bool:
    """Remove a folder by way of `trash`, a folder on the same disk; False if it was not there."""
    # No folder is made here: removing must work on a full disk too.
    gone = trash / f"{TRASH}{secrets.token_hex(8)}"
    try:
        path.rename(gone)
    except FileNotFoundError:
        return False
    sync_folder(path.parent)
    point("remove.after rename")
    _erase(gone)
    return True


def sweep(trash: Path) -> int:
    """Finish removals that a crash cut short; how many there were."""
    left = sorted(trash.glob(f"{TRASH}*"))
    for path in left:
        _erase(path)
    return len(left)


def _erase(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        with suppress(FileNotFoundError):  # somebody else removes it too; what is left is swept later
            _unlock(path)
            shutil.rmtree(path)


def _unlock(path: Path) -> None:
    """Open the folders that a stage has closed to its own user."""
    path.chmod(0o700)
    for folder, folders, _ in os.walk(path):
        for inner in (Path(folder, name) for name in folders):
            if not inner.is_symlink():
                inner.chmod(0o700)
