"""Something of everything in a database, so that calls get further than "there is no such thing"."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from takeup.app import App
from takeup.core.access import ROLES
from takeup.core.model import WorkerSpec
from takeup.core.remote import PROTOCOL
from takeup.core.videos import About
from takeup.net.signatures import new_secret
from takeup.store.ops.claim import ClaimRequest
from tests.api.afar import submit
from tests.api.conftest import flow
from tests.api.visitors import PASSWORD, person
from tests.videos.making import publish, sound

Values = Mapping[str, Sequence[str | int]]
SECRET = "a secret for registering workers"  # noqa: S105 - a test's own
SETTINGS: Mapping[str, object] = {
    "worker_admin_secret": SECRET,
    "webhook_allowed_networks": "127.0.0.1",
    "webhook_http": "allowed",
}
LIKELY = 0.7
"""How often such a value is sent, and not just any."""


async def key_of_worker(app: App) -> str:
    await app.store.worker.register(WorkerSpec("w", slots=4))
    return (await app.store.keys.add("w", frozenset({"worker"}), worker_id="w")).text


async def set_the_scene(app: App, folder: Path, user: str) -> Values:
    """What there is, by the names of the parameters that mean it; `user` is whose the upload is."""
    ended, live, held = await submit(app, 3)
    await app.store.operator.cancel([ended])
    request = ClaimRequest("w", "first", secrets.token_hex(16), 1)
    leases = await app.store.worker.claim(request)
    data = sound()
    video = await app.intake.take(user, len(data), About("A film", "a.wav", "web-h264"), _of(data))
    publish(app.intake.places.stream(video.id), folder / "made", video.job_id)
    await app.shelf.note(video.id)
    upload = await app.intake.begin(user, 10, About("Another", "b.wav", "web-h264"))
    spare = await app.store.keys.add("spare", ROLES["viewer"])
    spare_of_worker = await app.store.keys.add("spare", frozenset({"worker"}), worker_id="w")
    webhook = await app.store.webhooks.add(
        "https://example.org/", ["*"], form="standard", secret=new_secret(secrets.token_bytes)
    )
    tasks = [task for job in (ended, live, held) for task in await app.store.read.tasks(job)]
    return {
        "path.job_id": [ended, live, held],
        "path.task_id": [task.id for task in tasks],
        "path.video_id": [video.id],
        "path.slug": [video.slug],
        "path.path": ["master.m3u8", "index.html", "nothing.ts"],
        "path.upload_id": [upload.id],
        "path.key_id": [spare.id, spare_of_worker.id],
        "path.person_id": [(await person(app, "Ben", "viewer")).id],
        "path.webhook_id": [webhook.id],
        "path.worker_id": ["w"],
        "query.before": [ended, video.id],
        "query.channel": ["worker_status", f"job:{live}"],
        "header.Tus-Resumable": ["1.0.0"],
        "header.Takeup-Token": [f"{one.token.epoch}.{one.token.nonce}" for one in leases],
        "header.x-admin-secret": [SECRET],
        "header.upload-length": ["10", "100000"],
        "header.upload-offset": ["0"],
        "header.Upload-Length": [10, 100_000],
        "header.Upload-Offset": [0],
        "query.profile": ["web-h264"],
        "query.slug": ["a-film", "chosen"],
        "body.name": ["Ben", "Ann"],
        "body.password": [PASSWORD],
        "body.pipeline": [flow.name],
        "body.protocol": [PROTOCOL],
        "body.url": ["http://127.0.0.1:8080/hook"],
        "body.subject": ["film", "other film"],
    }


async def _of(data: bytes):
    yield data


def configured(plain: str, values: Values) -> str:
    """The configuration of schemathesis with these values in it."""
    lists = "".join(
        f'[dictionaries."{name}"]\nvalues = {json.dumps(list(known))}\n' for name, known in values.items()
    )
    names = "".join(f'"{name}" = {{ dictionary = "{name}", probability = {LIKELY} }}\n' for name in values)
    return f"{plain}\n[parameters]\n{names}\n{lists}"
