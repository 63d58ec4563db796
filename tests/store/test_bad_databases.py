"""A database that cannot be used: one clear error, no secret in it, and nothing left behind."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.core.errors import (
    NetworkFileSystem,
    StoreConfig,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    TakeupError,
)
from takeup.store.drivers import embedded
from takeup.store.drivers.embedded import check_local, file_system_of, path_of
from takeup.store.store import Store
from tests.services import PostgresServer
from tests.store.scenes import upgrade_schema

CANARY = "s3cret-canary"
NOBODY = 65534


async def refusal_of(url: str, kind: type[TakeupError]) -> str:
    """The message of the refusal; its type, help and silence about passwords are checked here."""
    with pytest.raises(kind) as caught:
        await Store.open(url, upgrade=True)
    error = caught.value
    assert str(error).strip()
    assert error.help != TakeupError.help
    shown = "".join(traceback.format_exception(error)) + error.help + repr(error)
    assert CANARY not in shown
    return str(error)


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Without root's right to write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="takeup-bad-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/name",
        "takeup.sqlite",
        "",
        "C:\\takeup.sqlite",
        f"mysql://user:{CANARY}@host/name",
        f"//user:{CANARY}@host/name",
        f"user:{CANARY}@host/name",
    ],
)
async def test_an_unknown_or_missing_scheme(url):
    message = await refusal_of(url, StoreConfig)
    assert "sqlite, postgresql or duckdb" in message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:takeup.sqlite",
        "sqlite://takeup.sqlite",
        "sqlite:///",
        "duckdb:///",
        f"sqlite://user:{CANARY}@host/takeup.sqlite",
        f"duckdb://user:{CANARY}@host/takeup.duckdb",
    ],
)
async def test_an_embedded_url_that_names_no_file(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "names no file" in await refusal_of(url, StoreConfig)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "rest", ["[::1/name", "127.0.0.1:port/name", "127.0.0.1:99999/name", "127.0.0.1:1/name?sslmode=bogus"]
)
async def test_a_malformed_url_is_not_a_python_error(rest):
    await refusal_of(f"postgresql://user:{CANARY}@{rest}", StoreError)


async def test_a_relative_file_lies_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await upgrade_schema("sqlite:///takeup.sqlite")
    assert (tmp_path / "takeup.sqlite").is_file()


def test_the_path_of_a_url():
    assert path_of("sqlite:///folder/takeup.sqlite") == Path("folder/takeup.sqlite")
    assert path_of("sqlite:////srv/take%20up.sqlite") == Path("/srv/take up.sqlite")
    assert path_of("duckdb:///:memory:") is None


async def test_a_closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        message = await refusal_of(f"postgresql://user:{CANARY}@127.0.0.1:{port}/name", StoreUnavailable)
    assert f"127.0.0.1:{port}/name" in message


async def test_a_missing_socket_folder(tmp_path):
    url = f"postgresql://user:{CANARY}@/name?host={tmp_path}/missing"
    assert "cannot reach PostgreSQL" in await refusal_of(url, StoreUnavailable)
    url = f"postgresql:///name?host={tmp_path}/missing&user=user&password={CANARY}"
    assert "cannot reach PostgreSQL" in await refusal_of(url, StoreUnavailable)


async def test_a_wrong_database_or_user(server: PostgresServer):
    host = f"?host={server.socket_dir}"
    message = await refusal_of(f"postgresql://postgres:{CANARY}@/missing{host}", StoreConfig)
    assert "create it" in message
    message = await refusal_of(f"postgresql://stranger:{CANARY}@/postgres{host}", StoreConfig)
    assert "refused the user or password" in message


def test_a_duckdb_file_held_by_another_process(tmp_path):
    file = tmp_path / "takeup.duckdb"
    asyncio.run(upgrade_schema(f"duckdb:///{file}"))
    code = f"import duckdb; held = duckdb.connect({str(file)!r}); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        message = asyncio.run(refusal_of(f"duckdb:///{file}", StoreInUse))
        assert "held by another process" in message
        holder.communicate("\n")
    asyncio.run(upgrade_schema(f"duckdb:///{file}"))


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
async def test_a_missing_folder_is_not_made(scheme, tmp_path):
    message = await refusal_of(f"{scheme}:///{tmp_path}/missing/takeup.db", StoreConfig)
    assert f"{tmp_path}/missing" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
async def test_a_folder_in_place_of_the_file(scheme, tmp_path):
    (tmp_path / "takeup.db").mkdir()
    await refusal_of(f"{scheme}:///{tmp_path}/takeup.db", StoreConfig)
    assert list((tmp_path / "takeup.db").iterdir()) == []


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize("folder", ["plain", "clockwork"])
async def test_a_file_that_is_no_database(scheme, folder, tmp_path):
    file = tmp_path / folder / "takeup.db"
    file.parent.mkdir()
    file.write_bytes(b"holiday pictures\n" * 1000)
    with pytest.raises(StoreConfig) as caught:
        await Store.open(f"{scheme}:///{file}", upgrade=True)
    assert type(caught.value) is StoreConfig, "it is not in use, whatever its path is called"
    assert str(file) in str(caught.value)
    assert file.read_bytes() == b"holiday pictures\n" * 1000


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
async def test_a_folder_that_may_not_be_written(scheme, open_folder):
    open_folder.chmod(0o555)
    with ordinary_user():
        message = await refusal_of(f"{scheme}:///{open_folder}/takeup.db", StoreConfig)
    assert str(open_folder) in message
    assert list(open_folder.iterdir()) == []


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
async def test_a_folder_that_may_not_be_entered(scheme, open_folder):
    inner = open_folder / "closed" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0)
    try:
        with ordinary_user():
            await refusal_of(f"{scheme}:///{inner}/takeup.db", StoreConfig)
    finally:
        inner.parent.chmod(0o755)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
async def test_a_file_that_may_only_be_read(scheme, open_folder):
    file = open_folder / "takeup.db"
    await upgrade_schema(f"{scheme}:///{file}")
    before = file.read_bytes()
    file.chmod(0o444)
    open_folder.chmod(0o777)
    with ordinary_user():
        await refusal_of(f"{scheme}:///{file}", StoreConfig)
    assert file.read_bytes() == before


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
files:/export /mnt/nfs nfs rw 0 0
files:/export /mnt/nfs4 nfs4 rw 0 0
//files/share /mnt/cifs cifs rw 0 0
share /mnt/shared\\040folder 9p rw 0 0
user@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/sdb1 /mnt/nfs/local xfs rw 0 0
files:/again /mnt/over nfs rw 0 0
/dev/sdc1 /mnt/over ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/srv/takeup", "ext4"),
        ("/mnt/nfs", "nfs"),
        ("/mnt/nfs/deep/down", "nfs"),
        ("/mnt/nfs4/x", "nfs4"),
        ("/mnt/nfsother", "ext4"),
        ("/mnt/cifs", "cifs"),
        ("/mnt/shared folder/x", "9p"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/mnt/nfs/local/x", "xfs"),
        ("/mnt/over/x", "ext4"),
    ],
)
def test_the_file_system_of_a_folder(folder, kind):
    assert file_system_of(Path(folder), MOUNTS) == kind


def mount(monkeypatch, folder: Path, kind: str) -> None:
    """Make the mount table say that this folder is of this type."""
    real = Path.read_text
    table = f"/dev/sda1 / ext4 rw 0 0\nfar:/away {str(folder).replace(' ', chr(92) + '040')} {kind} rw 0 0\n"

    def read_text(path: Path, *args: str, **options: str) -> str:
        return table if str(path) == "/proc/self/mounts" else real(path, *args, **options)

    monkeypatch.setattr(embedded.Path, "read_text", read_text)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"])
async def test_a_network_file_system_is_refused(scheme, kind, tmp_path, monkeypatch):
    mount(monkeypatch, tmp_path, kind)
    message = await refusal_of(f"{scheme}:///{tmp_path}/takeup.db", NetworkFileSystem)
    assert kind in message
    assert list(tmp_path.iterdir()) == []


async def test_a_link_to_a_network_file_system_is_refused(tmp_path, monkeypatch):
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    (near / "takeup.db").symlink_to(far / "takeup.db")
    (tmp_path / "linked").symlink_to(far)
    mount(monkeypatch, far, "nfs")
    for path in (tmp_path / "linked" / "takeup.db", near / "takeup.db"):
        with pytest.raises(NetworkFileSystem):
            check_local(path)


async def test_a_local_folder_is_accepted(tmp_path, monkeypatch):
    mount(monkeypatch, tmp_path / "elsewhere", "nfs")
    await upgrade_schema(f"sqlite:///{tmp_path}/takeup.db")
