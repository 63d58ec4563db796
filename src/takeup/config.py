"""Every setting with its meaning, default and unit.

A value comes from `takeup.toml`, from an environment variable with the prefix `TAKEUP_`, or from a flag; the
later wins. A wrong or contradictory value stops the start with one clear line.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from takeup.core.errors import InvalidInput
from takeup.core.remote import WAIT_S_MAX

PREFIX = "TAKEUP_"
FILE = "takeup.toml"
OTHER_VARIABLES = (
    "TAKEUP_ADMIN_PASSWORD", "TAKEUP_DEBUG", "TAKEUP_RUNNER", "TAKEUP_CRASH", "TAKEUP_CRASH_SEED",
    "TAKEUP_CRASH_TRACE",
)  # fmt: skip
"""What else we read: the first password, where a fault lies, the mark of a runner, and crash points."""
OF_OUR_TESTS = re.compile(r"TAKEUP_(TEST|CHAOS|BENCH|EXPLAIN)_")
DATA_DIR = Path("takeup-data")
NUMBER_MAX = 1e9
"""More seconds, days or tasks than anybody means; it also refuses what is no number at all."""
DAYS_MAX = 36_500
PORT_MAX = 65_535
KIB, MIB = 1 << 10, 1 << 20
SECRET_CHARS_MIN = 16
ADDRESS = re.compile(r"https?://[\w.-]+(:\d{1,5})?\Z|https?://\[[0-9a-fA-F:]+\](:\d{1,5})?\Z")
ABOVE_ZERO = (
    "worker_batch", "worker_block_kb", "outbox_lease", "ffmpeg_memory_gb", "upload_max_gb",
    "upload_expiry_hours", "upload_quota_count", "upload_quota_gb", "alert_webhook_timeout",
    "connections_max", "pull_lease", "pull_timeout", "pull_turn",
)  # fmt: skip
"""With 0 of these nothing would ever be done."""
CHOICES = {
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
    "sandbox": ("off", "best-effort", "required", "bubblewrap"),
    "stream_access": ("public", "key"),
    "alert_webhook_format": ("standard", "slack", "discord"),
    "webhook_http": ("refused", "allowed"),
    "pull_http": ("refused", "allowed"),
}


class InvalidSetting(InvalidInput):
    """A setting has a value that cannot be used."""

    help = "Correct the setting that the message names: in takeup.toml, in the environment or in the flag."


def setting(default: Any, doc: str, unit: str = "", *, is_secret: bool = False) -> Any:
    """A field of `Settings` with what people read about it; a secret one is never shown."""
    return field(default=default, repr=not is_secret, metadata={"doc": doc, "unit": unit})


@dataclass(frozen=True, slots=True)
class Settings:
    """What one process runs with."""

    data_dir: Path = setting(DATA_DIR, "Where database, scratch and artifacts live.")  # noqa: RUF009 - frozen
    database_url: str = setting("", "The database; empty: `takeup.db` (SQLite) in the data directory.")
    storage_url: str = setting("", "Where artifacts are published; empty: `artifacts` in the data directory.")
    media_dir: str = setting(
        "", "Where files that were sent and streams of videos lie; empty: in the data directory."
    )
    log_level: str = setting("info", "The least serious line that is logged: debug, info, warning or error.")
    log_format: str = setting("text", "How lines are written: text for people, json for machines.")
    worker_slots: int = setting(
        0, "How many tasks a worker runs at once; 0: one for each processor.", "tasks"
    )
    worker_processes: int = setting(0, "How many processes run them; 0: one for each slot.", "processes")
    worker_batch: int = setting(100, "How many tasks one claim takes at most.", "tasks")
    worker_poll_interval: float = setting(1.0, "How long an idle worker waits before it looks again.", "s")
    worker_heartbeat_interval: float = setting(30.0, "How often a worker says that it lives.", "s")
    worker_order_interval: float = setting(0.5, "How often a worker looks for cancelled tasks.", "s")
    worker_progress_interval: float = setting(2.0, "How often the progress of a task is written down.", "s")
    worker_drain_timeout: float = setting(300.0, "How long a stopping worker lets its tasks go on.", "s")
    worker_defer: float = setting(
        60.0, "How long work is left to workers that it prefers; two heartbeats at most.", "s"
    )
    worker_offline_threshold_minutes: float = setting(5.0, "Silent for so long, a worker is offline.", "min")
    worker_error_budget: int = setting(
        5, "So many tasks that it failed and others finished quarantine a worker; 0: none.", "tasks"
    )
    worker_error_window: float = setting(3600.0, "Within what time they count.", "s")
    orchestrator_interval: float = setting(1.0, "How often every live job is looked at.", "s")
    recovery_interval: float = setting(5.0, "How often overdue leases are taken back.", "s")
    recovery_grace: float = setting(120.0, "After an outage, how long overdue leases are left alone.", "s")
    outbox_interval: float = setting(1.0, "How often due messages are sent.", "s")
    outbox_lease: float = setting(60.0, "How long one delivery of a message may take.", "s")
    sweep_interval: float = setting(60.0, "How often files of ended attempts are swept.", "s")
    schedule_interval: float = setting(1.0, "How often schedules are looked at.", "s")
    archive_interval: float = setting(3600.0, "How often old finished jobs are looked for.", "s")
    archive_after_days: float = setting(
        30.0, "Jobs that finished longer ago are archived; 0: as soon as they are finished.", "days"
    )
    ffmpeg_path: str = setting("", "The ffmpeg to use; empty: that on PATH, or that of takeup[ffmpeg].")
    ffprobe_path: str = setting("", "The ffprobe to use; empty: that on PATH, or that of takeup[ffmpeg].")
    ffmpeg_memory_gb: int = setting(16, "The address space of one ffmpeg; a little is always used.", "GB")
    sandbox: str = setting(
        "best-effort",
        "How ffmpeg is confined: best-effort, required (no Landlock, no worker), bubblewrap, or off.",
    )
    transcode_max_gigapixels: float = setting(
        20_000.0, "How much one job may encode: frames times the pixels of all rungs.", "gigapixels"
    )
    server_url: str = setting(
        "",
        "The server that a worker elsewhere works for: http(s)://HOST:PORT; or several, with commas between.",
    )
    worker_api_key: str = setting(
        "", "The key of that worker, as `takeup workers register` printed it.", is_secret=True
    )
    worker_admin_secret: str = setting(
        "", "With this secret workers may register themselves over HTTP; empty: nobody may.", is_secret=True
    )
    worker_claim_wait: float = setting(20.0, "How long a claim waits at the server for work.", "s")
    worker_cache_gb: float = setting(
        50.0, "What a worker elsewhere keeps of the files of jobs it has nothing of just now.", "GB"
    )
    worker_block_kb: int = setting(
        256, "In steps of what size such a worker fetches what it reads of a source.", "KB"
    )
    host: str = setting("127.0.0.1", "The address that the server listens on; 0.0.0.0: every one.")
    port: int = setting(8080, "The port that the server listens on; 0: any free one.", "TCP port")
    connections_max: int = setting(
        10_000, "How many connections the server keeps; for more the idlest one is closed.", "connections"
    )
    insecure_cookies: bool = setting(
        default=False,
        doc="Let people log in over plain HTTP from other machines, in a network that you trust.",
    )
    allowed_hosts: str = setting(
        "", "By which names the server may be called, with commas between; empty: by any."
    )
    public_url: str = setting(
        "",
        "The address that clients call, such as https://video.example; it is told where a path does not do.",
    )
    upload_max_gb: float = setting(50.0, "How large one file may be that is sent to the server.", "GB")
    upload_expiry_hours: float = setting(24.0, "How long an upload is kept that nobody goes on with.", "h")
    upload_quota_count: int = setting(20, "How many files one key may be sending at a time.", "files")
    upload_quota_gb: float = setting(200.0, "How much one key may be sending at a time.", "GB")
    pull_interval: float = setting(1.0, "How often files to be fetched from addresses are looked for.", "s")
    pull_lease: float = setting(60.0, "Silent for so long, whoever fetches a file loses it to another.", "s")
    pull_timeout: float = setting(
        30.0, "Within this an address answers, and 30 kB come each time, or it is tried again later.", "s"
    )
    pull_wait_days: float = setting(
        7.0, "A file without room or quota is waited with for so long after it was asked for.", "days"
    )
    pull_at_once: int = setting(
        3, "How many files one server fetches at once, all but one of them for one key; 0: none.", "files"
    )
    pull_turn: float = setting(
        1800.0, "Who fetches a file for so long lets others go first who wait, and goes on after them.", "s"
    )
    pull_allowed_networks: str = setting(
        "", "Networks that files may be fetched from although they are not public, with commas between."
    )
    pull_http: str = setting("refused", "Fetching files without TLS: refused or allowed.")
    watch_dir: str = setting("", "A folder whose new files are made videos by the server; empty: none.")
    watch_interval: float = setting(5.0, "How often new files are looked for there.", "s")
    watch_settled: float = setting(
        10.0, "A file there is left alone until so long after its last change.", "s"
    )
    stream_access: str = setting("public", "Who may watch: public, or key (with the scope read).")
    stream_origins: str = setting(
        "", "Pages of which origins may play streams, with commas between; *: all, empty: our own."
    )
    sse_interval: float = setting(0.5, "How often live events are looked for while somebody listens.", "s")
    sse_heartbeat_interval: float = setting(30.0, "How often a live connection says that it lives.", "s")
    sse_reconnect_timeout: float = setting(3.0, "After how long a browser comes back to live events.", "s")
    sse_clients_max: int = setting(200, "How many may listen to live events of one server.", "connections")
    disk_reserve_mb: int = setting(
        64, "With less free space than this a worker claims nothing, and no file is received.", "MB"
    )
    webhook_interval: float = setting(1.0, "How often messages to webhooks are looked for.", "s")
    webhook_allowed_networks: str = setting(
        "",
        "Networks that webhooks may call although they are not public, with commas between: 192.168.0.0/16.",
    )
    webhook_http: str = setting("refused", "Webhooks without TLS: refused or allowed.")
    alert_interval: float = setting(5.0, "How often the log is read for alerts.", "s")
    alert_webhook_url: str = setting("", "Where every alert is sent; empty: only to webhooks that want it.")
    alert_webhook_secret: str = setting(
        "", "What signs messages to it: whsec_ and base64; empty: they are not signed.", is_secret=True
    )
    alert_webhook_format: str = setting("standard", "How they are written: standard, slack or discord.")
    alert_webhook_timeout: float = setting(10.0, "How long one call of a webhook may take.", "s")
    alert_rate_limit_seconds: float = setting(
        300.0, "How long an alert about the same subject is kept back; 0: not at all.", "s"
    )

    @property
    def database(self) -> str:
        """The URL of the database, the embedded default included."""
        return self.database_url or f"sqlite:///{self.data_dir / 'takeup.db'}"

    @property
    def defer_s(self) -> float:
        """How long work is left to others: who is silent for two heartbeats may be gone."""
        return min(self.worker_defer, 2 * self.worker_heartbeat_interval)

    @property
    def storage(self) -> Path:
        """The folder of the artifacts."""
        if not self.storage_url:
            return self.data_dir / "artifacts"
        if not self.storage_url.startswith("file:///"):
            raise InvalidSetting(f"storage_url {self.storage_url!r} must be file:///FOLDER")
        return Path(self.storage_url.removeprefix("file://"))

    @property
    def media(self) -> Path:
        """The folder of files that were sent and of the streams of videos."""
        return Path(self.media_dir) if self.media_dir else self.data_dir

    @property
    def scratch(self) -> Path:
        """The folder for files of running tasks, on this machine."""
        return self.data_dir / "scratch"


def load(environment: Mapping[str, str], flags: Mapping[str, Any], folder: Path = Path()) -> Settings:
    """The settings from file, environment and flags (None: not given), checked."""
    kinds = get_type_hints(Settings)
    known = {f.name for f in fields(Settings)}
    values: dict[str, Any] = {}
    for name, value in _from_file(folder / FILE).items():
        if name not in known:
            raise InvalidSetting(f"{FILE} sets {name!r}, which is no setting")
        values[name] = _parse(f"{name} in {FILE}", kinds[name], value)
    for name in known:
        variable = PREFIX + name.upper()
        if environment.get(variable, "") != "":
            values[name] = _parse(variable, kinds[name], environment[variable])
    for name, value in flags.items():
        if value is not None:
            values[name] = _parse(f"--{name.replace('_', '-')}", kinds[name], value)
    settings = Settings(**values)
    _check(settings)
    _check_afar(settings)
    return settings


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A line about each variable that has our prefix and that nobody reads."""
    known = {one.name.upper() for one in fields(Settings)}
    known |= {name.removeprefix(PREFIX) for name in OTHER_VARIABLES}
    lines = []
    for name in sorted(environment):
        short = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or short in known or OF_OUR_TESTS.match(name):
            continue
        near = difflib.get_close_matches(short, sorted(known), 1)
        hint = (
            f"did you mean {PREFIX}{near[0]}?" if near else "docs/reference/settings.md lists those there are"
        )
        lines.append(f"the variable {ascii(name)[1:-1]} is no setting and changes nothing; {hint}")
    return lines


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error


def _parse(name: str, kind: Any, value: Any) -> Any:
    """The value as its kind; text is read, but a number is not cut and nothing but text becomes text."""
    if kind is bool:
        return _parse_switch(name, value)
    words = {int: "a whole number", float: "a number", str: "text", Path: "a path"}
    wanted = {int: (int, str), float: (int, float, str), str: (str,), Path: (str, Path)}
    shown = "what it is" if "secret" in name.lower() else repr(value)
    wrong = InvalidSetting(f"{name} must be {words[kind]}, not {shown}")
    if isinstance(value, bool) or not isinstance(value, wanted[kind]):
        raise wrong
    try:
        return kind(value)
    except ValueError:
        raise wrong from None


def _parse_switch(name: str, value: Any) -> bool:
    """A switch, as TOML has it or as text."""
    found = {"true": True, "false": False}.get(str(value).strip().lower())
    if found is None or not isinstance(value, bool | str):
        raise InvalidSetting(f"{name} must be true or false, not {value!r}")
    return found


def _check(settings: Settings) -> None:
    for one in fields(Settings):
        value = getattr(settings, one.name)
        if isinstance(value, int | float) and not 0 <= value <= NUMBER_MAX:
            raise InvalidSetting(f"{one.name} must be from 0 to {NUMBER_MAX:.0e}, it is {value}")
        if (one.name.endswith("_interval") or one.name in ABOVE_ZERO) and value <= 0:
            raise InvalidSetting(f"{one.name} must be above 0, it is {value}")
    for name, words in CHOICES.items():
        value = getattr(settings, name)
        if value not in words:
            raise InvalidSetting(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")
    if settings.public_url and not ADDRESS.match(settings.public_url):
        raise InvalidSetting(
            "public_url must be http(s)://HOST or http(s)://HOST:PORT, with nothing behind it"
        )
    if settings.port > PORT_MAX:
        raise InvalidSetting(f"port must be at most {PORT_MAX}, it is {settings.port}")
    if settings.archive_after_days > DAYS_MAX:
        raise InvalidSetting(
            f"archive_after_days must be at most {DAYS_MAX}, it is {settings.archive_after_days:g}"
        )
    if settings.worker_offline_threshold_minutes * 60 < 3 * settings.worker_heartbeat_interval:
        raise InvalidSetting(
            "worker_offline_threshold_minutes must be at least three worker_heartbeat_interval, "
            f"but is {settings.worker_offline_threshold_minutes:g} min"
        )


def _check_afar(settings: Settings) -> None:
    """What concerns workers that are elsewhere."""
    if 0 < len(settings.worker_admin_secret) < SECRET_CHARS_MIN:
        raise InvalidSetting(f"worker_admin_secret must have at least {SECRET_CHARS_MIN} characters")
    if settings.worker_claim_wait > WAIT_S_MAX:
        raise InvalidSetting(f"worker_claim_wait must be at most {WAIT_S_MAX:g} s")
