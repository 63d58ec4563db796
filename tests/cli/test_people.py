"""`takeup people`, and how the first admin comes in when `takeup serve` starts."""

import signal
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Call, Cli
from tests.cli.test_serve import WAIT_S, Served, flow

__all__ = ["flow"]

PASSWORD = "seven green kettles"  # noqa: S105 - a test's own


def stop(served: Served) -> str:
    """Let it end well; answers with what it printed after its start."""
    served.process.send_signal(signal.SIGTERM)
    out, _ = served.process.communicate(timeout=WAIT_S)
    assert served.process.returncode == 0
    return out


def log_in(served: Served, name: str, password: str, **link: str) -> httpx2.Response:
    path = "/api/setup" if link else "/api/login"
    with httpx2.Client(base_url=served.address, trust_env=False, timeout=WAIT_S) as client:
        return client.post(path, json={"name": name, "password": password, **link})


@pytest.mark.usefixtures("flow")
def test_the_first_start_prints_a_link_that_works_once(tmp_path: Path):
    served = Served(tmp_path, workers=0)
    try:
        assert served.process.stdout
        line = served.process.stdout.readline()
        place, _, token = line.rpartition(" ")[2].strip().partition("#")
        assert place == f"{served.address}/setup"
        assert log_in(served, "Ann", PASSWORD, token=token).json()["role"] == "admin"
        assert log_in(served, "Eve", PASSWORD, token=token).status_code == 403
        assert log_in(served, "Ann", PASSWORD).status_code == 200
    finally:
        assert stop(served) == ""
    again = Served(tmp_path, workers=0)
    assert stop(again) == "", "there is an admin"


@pytest.mark.usefixtures("flow")
def test_the_first_admin_may_come_from_the_environment(tmp_path: Path):
    served = Served(tmp_path, workers=0, TAKEUP_ADMIN_PASSWORD=PASSWORD)
    try:
        assert log_in(served, "admin", PASSWORD).json()["role"] == "admin"
    finally:
        assert stop(served) == ""


@pytest.mark.parametrize("secret", ["", "short", "administrator", "password1234"])
def test_s126_a_secret_that_would_be_guessed_stops_the_start(tmp_path: Path, cli: Cli, secret: str):
    told = cli("serve", "--workers", "0", env={"TAKEUP_ADMIN_PASSWORD": secret})
    assert (told.returncode, told.stdout) == (78, "")
    assert len(told.stderr.splitlines()) == 1
    assert "TAKEUP_ADMIN_PASSWORD cannot be used" in told.stderr
    assert not secret or secret not in told.stderr
    assert not (tmp_path / "takeup-data").exists()


def test_people_are_managed_by_name(call: Call, monkeypatch: pytest.MonkeyPatch, cli: Cli):
    assert call("db", "upgrade").code == 0
    for name, role in (("Ann", "admin"), ("bob", "viewer")):
        told = cli("people", "add", name, "--role", role, text=f"{PASSWORD}\n")
        assert (told.returncode, told.stdout) == (0, f"{name} may log in as {role}\n")
    people = {one["name"]: one for one in call("people", "list", "--json").json}
    assert [(one["role"], one["disabled"]) for one in people.values()] == [
        ("admin", False),
        ("viewer", False),
    ]
    assert not [one for one in people.values() if "hash" in str(one)]
    assert call("people", "role", "BOB", "operator").out == "bob is operator now\n"
    assert call("people", "disable", "bob").out == "bob is disabled\n"
    assert "disabled" in call("people", "list").out
    assert call("people", "enable", "bob").out == "bob is enabled\n"
    assert cli("people", "password", "bob", text="eleven blue saucers").returncode == 0
    assert call("people", "remove", "bob").out == "bob is removed\n"
    assert [one["name"] for one in call("people", "list", "--json").json] == ["Ann"]
    for arguments, says in (
        (("remove", "Ann"), "only admin"),
        (("disable", "bob"), "nobody is called 'bob'"),
    ):
        refused = call("people", *arguments)
        assert (refused.code, refused.out) == (1, "")
        assert says in refused.err


@pytest.mark.parametrize(
    ("name", "typed", "says"),
    [
        ("Ann", "", "12 to 256"),
        ("Ann", "too short", "12 to 256"),
        ("Ann", "x" * 300, "12 to 256"),
        (" Ann", PASSWORD, "printable text"),
    ],
)
def test_people_that_cannot_be_added(cli: Cli, name: str, typed: str, says: str):
    assert cli("db", "upgrade").returncode == 0
    told = cli("people", "add", name, text=typed)
    assert (told.returncode, told.stdout) == (1, "")
    assert says in told.stderr
    assert not typed or typed not in told.stderr


def test_a_password_is_never_an_argument(cli: Cli):
    told = cli("people", "add", "Ann", PASSWORD)
    assert told.returncode == 2
    assert PASSWORD not in told.stdout


def test_doctor_warns_of_cookies_in_the_open(cli: Cli):
    told = cli("doctor", env={"TAKEUP_INSECURE_COOKIES": "true"})
    (line,) = [line for line in told.stdout.splitlines() if "cookies" in line]
    assert line.startswith("warn")
    assert "TLS" in line
