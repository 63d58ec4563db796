"""`takeup serve` answers over HTTP, and `takeup keys` makes what opens it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Cli, environment

WAIT_S = 60.0


class Served:
    """A server on a port of its own, in a folder of its own."""

    def __init__(self, folder: Path, workers: int = 1, **variables: str) -> None:
        command = [sys.executable, "-m", "takeup.cli.main", "serve", "--port", "0", "--workers", str(workers)]
        self.process = subprocess.Popen(
            [*command, "--pipelines", "demo.py"],
            cwd=folder,
            env=environment(TAKEUP_LOG_FORMAT="json", **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.address = found[0]
                return
        raise AssertionError("it never said where it listens")

    def ask(self, path: str, key: str, body: object = None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=self.address, headers=headers, trust_env=False, timeout=WAIT_S) as client:
            answer = client.get(path) if body is None else client.post(path, json=body)
        assert answer.is_success, answer.text
        told: dict[str, str] = answer.json()
        return told


@pytest.fixture
def flow(tmp_path: Path) -> None:
    (tmp_path / "demo.py").write_text(
        "from takeup import Pipeline\n\ndemo = Pipeline('demo')\n\n"
        "@demo.stage()\ndef only(ctx):\n    return {'made': ctx.spec['n']}\n"
    )


@pytest.mark.usefixtures("flow")
def test_a_job_from_afar_is_run_to_its_end(tmp_path: Path, cli: Cli):
    served = Served(tmp_path)
    try:
        key = cli("keys", "create", "mine", "--role", "operator").stdout.strip()
        made = served.ask("/api/jobs", key, {"pipeline": "demo", "spec": {"n": 3}})
        ran = cli("jobs", "watch", made["id"])
        assert ran.returncode == 0, ran.stderr
        shown = served.ask(f"/api/jobs/{made['id']}", key)
        assert shown["status"] == "completed"
        told = json.loads(cli("keys", "list", "--json").stdout)
        assert [(one["name"], one["scopes"]) for one in told] == [("mine", ["events", "read", "write"])]
        assert cli("keys", "revoke", told[0]["id"]).stdout == f"{told[0]['id']} is revoked\n"
        assert cli("keys", "list").stdout.count("mine") == 0
        taken = cli("serve", "--port", served.address.rpartition(":")[2], "--data", "other")
        assert (taken.returncode, "cannot be listened on" in taken.stderr) == (1, True)
    finally:
        served.process.send_signal(signal.SIGTERM)
        served.process.communicate(timeout=WAIT_S)
        assert served.process.returncode == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--role", "admin", "--scope", "read"), "say the same thing"),
        (("--worker", "w", "--scope", "read"), "for its calls alone"),
        (("--worker", "w"), "no worker has the id 'w'"),
        (("--days", "0"), "lives more than 0"),
    ],
)
def test_keys_that_cannot_be_made(cli: Cli, options: tuple[str, ...], says: str):
    assert cli("db", "upgrade").returncode == 0
    told = cli("keys", "create", "x", *options)
    assert (told.returncode, told.stdout) == (1, "")
    assert says in told.stderr
