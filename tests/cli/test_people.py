"""`takeup people`, and how the first admin comes in when `takeup serve` starts."""

import io
import signal
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from takeup.cli.doctor_checks import check_cookies
from takeup.config import load
from tests.cli.conftest import Call
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
    assert log_in(again, "Ann", PASSWORD).status_code == 200
    assert stop(again) == "", "there is an admin"


@pytest.mark.usefixtures("flow")
def test_the_first_admin_may_come_from_the_environment(tmp_path: Path):
    served = Served(tmp_path, workers=0, TAKEUP_ADMIN_PASSWORD=PASSWORD)
    try:
        assert log_in(served, "admin", PASSWORD).json()["role"] == "admin"
    finally:
        assert stop(served) == ""


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What comes in by a pipe."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.parametrize("secret", ["", "short", "administrator", "password1234"])
def test_s126_a_secret_that_would_be_guessed_stops_the_start(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, secret: str
):
    monkeypatch.setenv("TAKEUP_ADMIN_PASSWORD", secret)
    told = call("serve", "--workers", "0")
    assert (told.code, told.out) == (78, "")
    assert len(told.err.splitlines()) == 1
    assert "TAKEUP_ADMIN_PASSWORD cannot be used" in told.err
    assert not secret or secret not in told.err
    assert not (tmp_path / "takeup-data").exists()


def test_people_are_managed_by_name(call: Call, type_in: Callable[[str], None]):
    assert call("db", "upgrade").code == 0
    for name, role in (("Ann", "admin"), ("bob", "viewer")):
        type_in(f"{PASSWORD}\nmore")
        assert call("people", "add", name, "--role", role).out == f"{name} may log in as {role}\n"
    people = {one["name"]: one for one in call("people", "list", "--json").json}
    assert [one["role"] for one in people.values()] == ["admin", "viewer"]
    assert not [one for one in people.values() if one["disabled"] or "hash" in str(one)]
    assert call("people", "role", "BOB", "operator").out == "bob is operator now\n"
    assert call("people", "disable", "bob").out == "bob is disabled\n"
    assert "disabled" in call("people", "list").out
    assert call("people", "enable", "bob").out == "bob is enabled\n"
    type_in("eleven blue saucers")
    assert call("people", "password", "bob").out == "bob has a new password\n"
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
def test_people_that_cannot_be_added(
    call: Call, type_in: Callable[[str], None], name: str, typed: str, says: str
):
    type_in(typed)
    told = call("people", "add", name)
    assert (told.code, told.out) == (1, "")
    assert says in told.err
    assert not typed or typed not in told.err


def test_a_password_is_never_an_argument(call: Call):
    assert call("people", "add", "Ann", PASSWORD).code == 2


def test_doctor_warns_of_cookies_in_the_open():
    (told,) = check_cookies(load({}, {"insecure_cookies": True}))
    assert (told.state, "TLS" in told.advice) == ("warn", True)
    assert list(check_cookies(load({}, {}))) == []
