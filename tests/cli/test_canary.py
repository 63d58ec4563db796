"""A whole life with secrets that are easy to recognise: afterwards none is anywhere but where it must be."""

import base64
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from takeup.core.ids import digest
from takeup.core.remote import PROTOCOL
from takeup.media.binaries import find
from tests.cli.conftest import environment
from tests.cli.test_videos import CLIP
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema

WAIT_S = 45.0
LOOK_S = 0.02
ADMIN_SECRET = "canary-of-the-admin-secret-0123456789"  # noqa: S105 - what is looked for afterwards
PASSWORD = "canary of the password"  # noqa: S105 - the same
DATABASE_PASSWORD = "canaryofthedatabase"  # noqa: S105 - the same
CLAIM_SECRET = "canary-of-the-secret-of-a-claim-0123"  # noqa: S105 - the same
ALERT_SECRET = "whsec_" + base64.b64encode(b"canary of the secret of alerts").decode()
PIPELINES = ("--pipelines", "flow.py")
FLOW = """import os
from takeup import Fatal, Pipeline

flow = Pipeline("flow")


@flow.stage()
def only(ctx):
    ctx.log.info(str(dict(os.environ)))
    raise Fatal(f"it broke with {dict(os.environ)}")
"""


class Receiver(BaseHTTPRequestHandler):
    """Takes webhooks and answers with what it was sent, as a careless endpoint might."""

    heard: list[str]

    def do_POST(self) -> None:
        said = f"{self.headers}{self.rfile.read(int(self.headers['Content-Length'])).decode()}"
        self.heard.append(said)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiver(heard: list[str]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Heard", (Receiver,), {"heard": heard}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def commands_seen(seen: set[str]) -> Iterator[None]:
    """Whatever processes are called with, looked at all the while."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    with suppress(OSError):
                        seen.add(
                            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                        )

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def takeup(folder: Path, name: str, *options: str, **variables: str) -> Iterator[Path]:
    """A command at work, telling everything; yields its log."""
    log, more = folder / f"{name}.log", {"TAKEUP_LOG_FORMAT": "json", "TAKEUP_LOG_LEVEL": "debug"}
    (folder / "tmp").mkdir(exist_ok=True)
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "takeup.cli.main", name, *options],
            cwd=folder,
            env=environment(TMPDIR=str(folder / "tmp"), **more, **variables),
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0, log.read_text()


def until(holds: Callable[[], Any]) -> Any:
    """What it answers as soon as that is something."""
    end = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < end, holds
        time.sleep(LOOK_S)
    return found


class Told:
    """Calls, and all that was ever answered."""

    def __init__(self, address: str) -> None:
        self.http = httpx2.Client(base_url=address, trust_env=False, timeout=WAIT_S)
        self.all: list[str] = []

    def ask(self, method: str, path: str, *, key: str = "", told_once: bool = False, **options: Any) -> Any:
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **options.pop("headers", {})}
        answer = self.http.request(method, path, headers=headers, **options)
        if not told_once:  # the one answer that a secret is in
            self.all.append(f"{answer.headers}{answer.text}")
        self.http.cookies.clear()
        self.last = answer
        is_json = answer.headers.get("content-type", "").endswith("json")
        assert answer.content or not is_json, (method, path, answer)
        return answer.json() if is_json else answer.text

    def listen(self, key: str, channels: list[str], over: threading.Event) -> threading.Thread:
        def hear() -> None:
            with self.http.stream(
                "GET",
                "/api/events",
                params=[("channel", name) for name in channels],
                headers={"Authorization": f"Bearer {key}"},
            ) as answer:
                for line in answer.iter_lines():
                    self.all.append(line)
                    if over.is_set():
                        return

        thread = threading.Thread(target=hear)
        thread.start()
        return thread


def make_clip(path: Path) -> None:
    subprocess.run([find().ffmpeg, "-v", "error", *CLIP, path], check=True, timeout=60)


async def dumped(url: str) -> dict[str, str]:
    """Every table as text."""
    connection = await asyncpg.connect(url)
    names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    found = {name: repr(await connection.fetch(f'SELECT t::text FROM "{name}" t')) for (name,) in names}
    await connection.close()
    return found


def live(told: Told, folder: Path, hook: str, start_worker: Callable[[str], None]) -> dict[str, str]:
    """Log in, make keys, register, send a film, let it be made, fail, try what must not work; the secrets."""
    entered = told.ask("POST", "/api/login", json={"name": "admin", "password": PASSWORD}, told_once=True)
    session = told.last.headers["set-cookie"].partition(";")[0]
    page = {"Cookie": session, "X-CSRF-Token": entered["csrf_token"], "Origin": str(told.http.base_url)}
    scopes = ["read", "events", "write", "admin"]
    made = told.ask("POST", "/api/keys", headers=page, json={"name": "k", "scopes": scopes}, told_once=True)
    key = made["key"]
    secret = {"X-Admin-Secret": ADMIN_SECRET}
    worker = told.ask(
        "POST", "/api/worker/register", json={"worker_name": "attic"}, headers=secret, told_once=True
    )
    endpoint = told.ask("POST", "/api/webhooks", key=key, json={"url": hook}, told_once=True)
    over = threading.Event()
    ears = told.listen(key, ["worker_status"], over)
    job = told.ask("POST", "/api/jobs", key=key, json={"pipeline": "flow", "subject": "film"})
    nonce = hold_once(told, worker["api_key"])
    start_worker(worker["api_key"])
    clip = folder / "clip.mp4"
    video = told.ask(
        "POST",
        "/api/videos?title=Film",
        key=key,
        content=clip.read_bytes(),
        headers={"Content-Type": "video/mp4"},
    )
    paths = (f"/api/videos/{video['id']}", f"/api/jobs/{job['id']}")
    for path, status in zip(paths, ("ready", "failed"), strict=True):
        until(lambda path=path, status=status: told.ask("GET", path, key=key)["status"] == status)
    secrets = {
        "the admin secret": ADMIN_SECRET,
        "the password": PASSWORD,
        "the password of the database": DATABASE_PASSWORD,
        "the session": session.partition("=")[2],
        "the token of its pages": entered["csrf_token"],
        "the key": key,
        "the key of the worker": worker["api_key"],
        "the secret of a claim": CLAIM_SECRET,
        "the token of a lease": nonce,
        "the secret of the webhook": endpoint["secret"],
        "the secret of the alerts": ALERT_SECRET,
    }
    go_wrong(told, key, list(secrets.values()))
    until(lambda: told.ask("GET", f"/api/webhooks/{endpoint['id']}/deliveries", key=key)["items"])
    known = Known(job_id=job["id"], video_id=video["id"], webhook_id=endpoint["id"])
    for path in told.ask("GET", "/openapi.json")["paths"]:
        if path != "/api/events":  # that one does not end, and is listened to already
            told.ask("GET", path.format_map(known), key=key)
    over.set()
    told.ask("POST", "/api/logout", headers=page)
    told.ask("DELETE", f"/api/keys/{made['id']}", key=key)
    ears.join(WAIT_S)
    return secrets


def hold_once(told: Told, key: str) -> str:
    """Claim the job's task by hand and give it back; answers with the secret of its token."""
    begin = {"protocol": PROTOCOL, "version": "0", "slots": 1, "stages": ["flow/only"]}
    told.ask("POST", "/api/worker/start", key=key, json=begin)
    claim = {"request_id": "by hand", "secret": CLAIM_SECRET, "wait": 20}
    (lease,) = told.ask("POST", "/api/worker/claim", key=key, json=claim, told_once=True)["leases"]
    token = {name: lease[name] for name in ("task_id", "epoch", "nonce")}
    told.ask("POST", "/api/worker/release", key=key, json={"request_id": "back", "reports": [token]})
    nonce: str = lease["nonce"]
    return nonce


class Known(dict[str, str]):
    """Names in paths; what is not known stays a word."""

    def __missing__(self, name: str) -> str:
        return name


def go_wrong(told: Told, key: str, secrets: list[str]) -> None:
    """Every secret where it does not belong; what names a pipeline or worker is told back to who said it."""
    for secret in secrets:
        for path, body, told_once in (
            ("/api/jobs", {"pipeline": secret}, True),
            ("/api/jobs", {"pipeline": "flow", "paused": secret}, False),
            ("/api/keys", {"name": "x", "scopes": [secret]}, False),
            ("/api/webhooks", {"url": f"https://u:{secret}@127.0.0.1/"}, False),
            ("/api/login", {"name": secret, "password": secret[::-1]}, False),
        ):
            told.ask("POST", path, key="" if path == "/api/login" else key, json=body, told_once=told_once)
            assert told.last.status_code >= 400, path
        wrong = {"X-Admin-Secret": f"{secret}x"}
        told.ask("POST", "/api/worker/register", json={"worker_name": "x"}, headers=wrong)
        told.ask("GET", "/api/jobs", headers={"Authorization": f"Bearer {secret[:-1]}"})
        told.ask("GET", "/api/jobs", params={"token": secret})


def settings_of(url: str, hook: str) -> dict[str, str]:
    return {
        "TAKEUP_DATABASE_URL": url,
        "TAKEUP_ADMIN_PASSWORD": PASSWORD,
        "TAKEUP_WORKER_ADMIN_SECRET": ADMIN_SECRET,
        "TAKEUP_ALERT_WEBHOOK_URL": hook,
        "TAKEUP_ALERT_WEBHOOK_SECRET": ALERT_SECRET,
        "TAKEUP_WEBHOOK_HTTP": "allowed",
        "TAKEUP_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.1",
    }


def lived(folder: Path, url: str, heard: list[str], commands: set[str]) -> tuple[Told, dict[str, str]]:
    """A server and a worker elsewhere, from their start to their end; what was told, and the secrets."""
    with ExitStack() as stack:
        stack.enter_context(commands_seen(commands))
        hook = stack.enter_context(receiver(heard))
        options = ("--workers", "0", "--port", "0", *PIPELINES)
        log = stack.enter_context(takeup(folder, "serve", *options, **settings_of(url, hook)))
        found = until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
        told = Told(found[0])
        stack.callback(told.http.close)

        def start_worker(key: str) -> None:
            elsewhere = ("--server", found[0], "--data", "afar", *PIPELINES)
            stack.enter_context(takeup(folder, "work", *elsewhere, TAKEUP_WORKER_API_KEY=key))

        return told, live(told, folder, hook, start_worker)


async def test_s132_no_secret_is_anywhere_afterwards(tmp_path: Path, get_postgres: GetPostgres):
    (tmp_path / "flow.py").write_text(FLOW)
    make_clip(tmp_path / "clip.mp4")
    heard: list[str] = []
    commands: set[str] = set()
    async with database_from_template(get_postgres("postgres15"), upgrade_schema) as url:
        whole = re.sub(r"://(\w+)(:\w+)?@", rf"://\1:{DATABASE_PASSWORD}@", url)
        assert DATABASE_PASSWORD in whole, url
        told, secrets = lived(tmp_path, whole, heard, commands)
        tables = await dumped(url)
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    places = {
        "an answer or an event": "\n".join(told.all),
        "a message": "\n".join(heard),
        "a command line": "\n".join(commands),
        **{f"the file {path.relative_to(tmp_path)}": path.read_bytes().decode("latin-1") for path in files},
        **{f"the table {name}": text for name, text in tables.items()},
    }
    seen = {(name, place) for name in secrets for place, text in places.items() if secrets[name] in text}
    signing = {(name, "the table webhooks") for name in secrets if "webhook" in name or "alerts" in name}
    assert seen == signing, "only what signs is kept, where it is signed with"
    assert digest(secrets["the key"]) in tables["api_keys"], "it is looked for where it would be"
    assert "ffmpeg" in places["a command line"]
    assert json.loads(heard[-1].partition("\n\n")[2])
