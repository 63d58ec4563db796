"""Settings: flag over environment over file over default; what is wrong is said in one line."""

import os
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from takeup.config import FILE, PREFIX, InvalidSetting, Settings, load, unknown_variables

ROOT = Path(__file__).resolve().parents[2]


def loaded(folder: Path, text: str = "", environment: dict[str, str] | None = None, **flags: Any) -> Settings:
    (folder / FILE).write_text(text)
    return load(environment or {}, flags, folder)


def test_without_anything_the_defaults_hold(tmp_path: Path):
    assert load({}, {}, tmp_path) == Settings()
    assert load({"TAKEUP_DATA_DIR": "", "OTHER": "1"}, {"data_dir": None}, tmp_path) == Settings()


def test_a_flag_outranks_the_environment_and_that_the_file(tmp_path: Path):
    file = 'log_level = "debug"\nworker_slots = 1\nsweep_interval = 7\n'
    variables = {"TAKEUP_LOG_LEVEL": "warning", "TAKEUP_WORKER_SLOTS": "2"}
    assert loaded(tmp_path, file).log_level == "debug"
    settings = loaded(tmp_path, file, variables)
    assert (settings.log_level, settings.worker_slots, settings.sweep_interval) == ("warning", 2, 7.0)
    settings = loaded(tmp_path, file, variables, log_level="error", worker_slots=None)
    assert (settings.log_level, settings.worker_slots, settings.sweep_interval) == ("error", 2, 7.0)


def test_every_setting_can_come_from_everywhere(tmp_path: Path):
    """With the text of its default, whatever its kind."""
    for one in fields(Settings):
        text = str(one.default).lower() if isinstance(one.default, bool) else str(one.default)
        quoted = f'"{text}"' if isinstance(one.default, str | Path) else text
        assert loaded(tmp_path, f"{one.name} = {quoted}") == Settings(), one.name
        assert loaded(tmp_path, "", {PREFIX + one.name.upper(): text}) == Settings(), one.name
        assert loaded(tmp_path, "", None, **{one.name: text}) == Settings(), one.name


def test_every_setting_tells_its_meaning_and_a_number_its_unit():
    for one in fields(Settings):
        assert one.metadata["doc"].endswith("."), one.name
        assert bool(one.metadata["unit"]) == (type(one.default) in (int, float)), one.name


WRONG = {
    "worker_slots = 1.5": "worker_slots in takeup.toml must be a whole number, not 1.5",
    "worker_slots = true": "must be a whole number, not True",
    'worker_slots = "many"': "must be a whole number, not 'many'",
    'sweep_interval = "soon"': "must be a number",
    "sweep_interval = [1]": "must be a number",
    "sweep_interval = 0": "sweep_interval must be above 0",
    "archive_interval = -1": "archive_interval must be from 0",
    "schedule_interval = 0.0": "schedule_interval must be above 0",
    "archive_after_days = nan": "archive_after_days must be from 0",
    "archive_after_days = inf": "archive_after_days must be from 0",
    "archive_after_days = 40000": "archive_after_days must be at most 36500",
    "worker_batch = 0": "worker_batch must be above 0",
    "outbox_lease = 0": "outbox_lease must be above 0",
    "data_dir = 5": "must be a path",
    "log_level = 5": "must be text",
    "insecure_cookies = 1": "insecure_cookies in takeup.toml must be true or false, not 1",
    'insecure_cookies = "maybe"': "must be true or false, not 'maybe'",
    'log_level = "loud"': "log_level must be debug, info, warning or error, not 'loud'",
    'log_format = "xml"': "log_format must be text or json",
    "wroker_slots = 1": "'wroker_slots', which is no setting",
    "[worker]\nslots = 1": "'worker', which is no setting",
    "worker_slots =": "cannot be read",
    "worker_heartbeat_interval = 300": "worker_offline_threshold_minutes must be at least three",
    "worker_offline_threshold_minutes = 1": "worker_offline_threshold_minutes must be at least three",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str):
    with pytest.raises(InvalidSetting) as caught:
        loaded(tmp_path, text)
    said = str(caught.value)
    assert WRONG[text] in said
    assert len(said.splitlines()) == 1


def test_the_place_of_a_wrong_value_is_named(tmp_path: Path):
    with pytest.raises(InvalidSetting, match=r"TAKEUP_WORKER_SLOTS must be a whole number, not '2\.0'"):
        loaded(tmp_path, "", {"TAKEUP_WORKER_SLOTS": "2.0"})
    with pytest.raises(InvalidSetting, match="--sweep-interval must be a number, not 'x'"):
        loaded(tmp_path, "", None, sweep_interval="x")


def test_settings_that_go_together_are_taken_together(tmp_path: Path):
    settings = loaded(tmp_path, "worker_heartbeat_interval = 300\nworker_offline_threshold_minutes = 15")
    assert settings.worker_heartbeat_interval == 300.0
    with pytest.raises(FrozenInstanceError):
        settings.worker_slots = 3  # type: ignore[misc]


def test_where_things_are_follows_from_the_data_directory():
    settings = Settings(data_dir=Path("d"))
    assert settings.database == "sqlite:///d/takeup.db"
    assert (settings.storage, settings.scratch) == (Path("d/artifacts"), Path("d/scratch"))
    chosen = Settings(database_url="postgresql:///x", storage_url="file:///mnt/films")
    assert (chosen.database, chosen.storage) == ("postgresql:///x", Path("/mnt/films"))
    with pytest.raises(InvalidSetting, match="file:///FOLDER"):
        _ = Settings(storage_url="s3://films").storage


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load({}, {}, tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load({}, {}, tmp_path)


def test_a_command_says_it_in_one_line_too(tmp_path: Path):
    ran = subprocess.run(
        [sys.executable, "-m", "takeup.cli.main", "recover"],
        cwd=tmp_path,
        env={"TAKEUP_ARCHIVE_INTERVAL": "often"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("takeup: TAKEUP_ARCHIVE_INTERVAL must be a number, not 'often'")
    assert len(ran.stderr.splitlines()) == 1


def test_the_page_of_settings_has_them_all():
    page = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    for one in fields(Settings):
        assert f"| `{one.name}` | `{PREFIX}{one.name.upper()}` |" in page


@pytest.mark.parametrize(
    "text", ["video.example", "https://video.example/", "https://a b", "ftp://x", "http://:80"]
)
def test_an_address_that_clients_could_not_call(tmp_path: Path, text: str):
    with pytest.raises(InvalidSetting, match="public_url"):
        load({}, {"public_url": text}, tmp_path)
    for fine in ("https://video.example", "http://10.0.0.1:8080", "http://[::1]:80"):
        assert load({}, {"public_url": fine}, tmp_path).public_url == fine


UNKNOWN = {
    "TAKEUP_WORKER_SLOT": "did you mean TAKEUP_WORKER_SLOTS?",
    "TAKEUP_PUL_HTTP": "did you mean TAKEUP_PULL_HTTP?",
    "TAKEUP_ADMIN_PASWORD": "did you mean TAKEUP_ADMIN_PASSWORD?",
    "TAKEUP_QXZJ": "changes nothing",
    "TAKEUP_": "changes nothing",
    "TAKEUP_\x1b[2J\nX": r"TAKEUP_\x1b[2J\nX",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_variable_that_is_no_setting_is_told(name: str):
    (line,) = unknown_variables({name: "a secret", "PATH": "/bin", "TAKEUP_PORT": "1"})
    assert UNKNOWN[name] in line
    assert line.isprintable()
    assert "a secret" not in line


def test_what_our_own_programs_read_is_known():
    """Each name that stands anywhere in the tree."""
    found: set[str] = set()
    for folder in ("src", "tests", "bench", "scripts", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            if "node_modules" not in path.parts and path != Path(__file__):
                found |= set(re.findall(r"[\"']?(TAKEUP_[A-Z][A-Z_]*[A-Z])\b", path.read_text("utf-8")))
    assert len(found) > len(KEPT_FROM_RUNNERS) + 10
    assert unknown_variables(dict.fromkeys(found - KEPT_FROM_RUNNERS, "1")) == []
    assert unknown_variables({PREFIX + one.name.upper(): "1" for one in fields(Settings)}) == []


KEPT_FROM_RUNNERS = {"TAKEUP_REDIS_URL"}
"""Nobody reads these; they are taken away where strangers' code runs."""


def test_a_command_tells_of_it_and_goes_on():
    command = [sys.executable, "-m", "takeup.cli.main", "jobs", "list", "--data", "/nowhere"]
    told = _stderr_of(command, TAKEUP_LOG_LEVL="debug")
    first, second = told.splitlines()
    assert "TAKEUP_LOG_LEVL" in first
    assert "TAKEUP_LOG_LEVEL" in first
    assert "there is no database" in second


def _stderr_of(command: list[str], **variables: str) -> str:
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr
