"""The small parts of the engine: frames, bells, breakers, trust, redaction, loading."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.core.errors import InvalidInput, InvalidPipeline, StoreUnavailable, UnknownPipeline
from takeup.core.ids import Token
from takeup.core.model import Brief, Lease
from takeup.dispatch import file_bell
from takeup.dispatch.bell import EVERYTHING, NAMES_MAX, Bell, NotifyBell
from takeup.engine import wire
from takeup.engine.holding import Hand, Holding, margin_s
from takeup.engine.loop import Breaker, keep_running, pause
from takeup.engine.wire import FRAME_BYTES_MAX, Decoder, Start, encode, encode_starts
from takeup.pipelines.loading import absolute, load, load_all, load_one
from takeup.telemetry.redact import redact
from takeup.testing.clocks import START

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5),
    st.lists(st.integers(1, 40), max_size=60),
)
def test_frames_survive_any_cutting(frames, sizes):
    data, decoder, found = b"".join(map(encode, frames)), Decoder(), []
    for size in sizes:
        found += decoder.feed(data[:size])
        data = data[size:]
    found += decoder.feed(data)
    assert found == json.loads(json.dumps(frames))


def test_a_frame_without_measure_is_refused():
    with pytest.raises(InvalidInput, match="announces"):
        Decoder().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


def test_starts_that_are_too_much_for_one_frame_are_cut(monkeypatch):
    starts = [Start(n, 1, "h", f"job{n % 2}", "p", "s", n, 1, 1, 3, {"text": "x" * 100}) for n in range(20)]
    jobs = {"job0": Brief({"a": 1}, None), "job1": Brief({"b": [1]}, "s")}
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 1000)
    frames = Decoder().feed(encode_starts(starts, jobs))
    assert len(frames) > 1
    told = [Start._make(fields) for frame in frames for fields in frame["tasks"]]
    assert told == starts
    for frame in frames:
        assert {job_id: Brief._make(brief) for job_id, brief in frame["jobs"].items()}.items() <= jobs.items()
    with pytest.raises(InvalidInput, match="exceeds"):
        encode_starts([starts[0]._replace(parameters={"text": "x" * 1000})], jobs)


async def test_a_ring_is_heard_by_all_who_listen_and_kept_for_who_is_busy():
    bell = Bell()
    first, second, other = bell.listen("work"), bell.listen("work"), bell.listen("jobs")
    bell.ring("work", ["a"])
    bell.ring("work", ["b"])
    never = asyncio.Event()
    await asyncio.wait_for(pause(never, first, 60), 5)
    assert (first.take(), second.take(), other.take()) == ({"a", "b"}, {"a", "b"}, set())
    waiting = asyncio.create_task(pause(never, first, 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    bell.ring("work")
    await asyncio.wait_for(waiting, 5)


async def test_a_pause_ends_in_time_and_when_told_to_stop():
    ear, stop = Bell().listen("work"), asyncio.Event()
    await asyncio.wait_for(pause(stop, ear, 0.001), 5)
    waiting = asyncio.create_task(pause(stop, ear, 60))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(waiting, 5)


def test_too_many_names_mean_everything():
    bell = Bell()
    ear = bell.listen("jobs")
    bell.ring("jobs", [str(n) for n in range(NAMES_MAX + 1)])
    assert ear.take() == {EVERYTHING}


async def test_rings_travel_to_others_and_not_back():
    sent: list[tuple[str, str]] = []
    hears = []

    async def notify(topic: str, text: str) -> None:
        sent.append((topic, text))

    async def listen(hear) -> None:
        hears.append(hear)
        await asyncio.Event().wait()

    bell = NotifyBell(notify, listen)
    ear = bell.listen("jobs")
    for _ in range(50):
        bell.ring("jobs", ["j"])
    await asyncio.sleep(0.02)
    assert len(sent) == 1, "many rings in a moment are one message"
    assert ear.take() == {"j"}
    topic, text = sent[0]
    hears[0](topic, text)
    assert ear.take() == set(), "its own words"
    hears[0]("jobs", "stranger,k")
    assert ear.take() == {"k"}
    await bell.close()


async def test_a_hint_travels_with_a_commit_only_now_and_then():
    sent: list[str] = []

    async def notify(topic: str, _text: str) -> None:
        sent.append(topic)

    async def listen(_hear) -> None:
        await asyncio.Event().wait()

    bell = NotifyBell(notify, listen)
    assert bell.hint("work").startswith("work ")
    assert bell.hint("work") == "", "commits with hints wait for each other"
    while not bell.hint("work"):
        await asyncio.sleep(0.001)
    bell.ring("work")
    while not sent:
        await asyncio.sleep(0.001)
    assert bell.hint("work") == "", "somebody was told a moment ago"
    await bell.close()
    assert Bell().hint("work") == ""


@pytest.mark.parametrize("watch", [file_bell.watch, lambda _: None])
async def test_every_write_of_another_process_rings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Callable[[str], int | None]
):
    monkeypatch.setattr(file_bell, "watch", watch)
    file = tmp_path / "takeup.db-wal"
    file.write_bytes(b"")
    bell = file_bell.FileBell(str(file))
    ear = bell.listen("work")
    for _ in range(3):
        writing = await asyncio.create_subprocess_exec("sh", "-c", f"echo more >> {file}")
        await asyncio.wait_for(pause(asyncio.Event(), ear, 60), 5)
        assert ear.take() == {EVERYTHING}
        await writing.wait()
    await bell.close()


def test_a_file_that_cannot_be_watched_is_looked_at(tmp_path: Path):
    assert file_bell.watch(str(tmp_path / "missing")) is None


def test_pauses_grow_and_end_with_success():
    breaker = Breaker(first_s=0.1, last_s=1.0, luck=lambda: 0.0)
    assert [round(breaker.fail(), 2) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert breaker.is_open
    breaker.succeed()
    assert not breaker.is_open
    assert breaker.fail() == 0.1


async def test_a_loop_goes_on_after_whatever_goes_wrong():
    class Fragile:
        name, period_s, rounds = "fragile", 0.001, 0

        async def run_once(self) -> bool:
            self.rounds += 1
            if self.rounds == 1:
                raise StoreUnavailable("gone")
            if self.rounds == 2:
                raise ZeroDivisionError
            if self.rounds == 6:
                stop.set()
            return self.rounds < 5

    loop, stop = Fragile(), asyncio.Event()
    await asyncio.wait_for(keep_running(loop, stop, luck=lambda: 0.99), 10)
    assert loop.rounds == 6


def lease(lease_s: float = 60.0) -> Lease:
    return Lease(1, "job", "p", "s", None, 1, 1, 3, 5, lease_s, START, {}, Token(1, "n"))


def test_a_lease_is_trusted_from_before_the_request_and_not_to_its_end():
    holding = Holding(lease(60), 1, asked_at=100.0, started_at=101.0)
    assert holding.trusted_until == 100 + 60 - 10
    assert holding.renew_at == 120
    assert margin_s(6) == 1
    holding.asked_at = 130.0
    assert holding.trusted_until == 180


def test_a_stall_limit_is_noticed_in_time():
    assert Holding(lease(60), 1, 0.0, 0.0, stall_s=10).renew_every_s == 5


def test_progress_is_told_once():
    holding = Holding(lease(), 1, 0.0, 0.0)
    holding.percent, holding.note, holding.has_news = 40.0, "half", True
    assert holding.renewal().percent == 40.0
    assert holding.renewal().percent is None


def test_a_hand_knows_the_epoch():
    hand, holding = Hand(), Holding(lease(), 7, 0.0, 0.0)
    hand.add(holding)
    assert hand.get(1, 1) is holding
    assert hand.get(1, 2) is None
    assert hand.on(7) == [holding]
    holding.has_ended = True
    assert hand.on(7) == []
    hand.drop(holding)
    assert len(hand) == 0


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgresql://user:s3cr3t@host/db failed", "s3cr3t"),
        ("PASSWORD=s3cr3t ffmpeg", "s3cr3t"),
        ('{"api_key": "s3cr3t"}', "s3cr3t"),
        ("Authorization: Bearer s3cr3ts3cr3t", "s3cr3ts3cr3t"),
        ("https://x/y?X-Amz-Signature=s3cr3t&a=b", "s3cr3t"),
        ("Cookie: takeup=takeup_ses_0123456789ab_s3cr3ts3cr3t", "s3cr3t"),
        ("opened http://x/setup#takeup_set_0123456789ab_s3cr3ts3cr3t", "s3cr3t"),
    ],
)
def test_secrets_are_hidden(text, secret):
    assert secret not in redact(text)
    assert "[hidden]" in redact(text)


def test_other_text_stays():
    text = "encoded 40 of 100 frames at https://example.org/a?b=c"
    assert redact(text) == text


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


GOOD = "from takeup import Pipeline\na = Pipeline('a')\nb = Pipeline('b')\n"


def test_pipelines_are_found_by_file_and_name(tmp_path):
    path = write(tmp_path, "good.py", GOOD)
    assert [p.name for p in load(path)] == ["a", "b"]
    assert load_one(f"{path}:b").name == "b"
    with pytest.raises(UnknownPipeline, match="several"):
        load_one(path)
    with pytest.raises(UnknownPipeline, match="declares: a, b"):
        load_one(f"{path}:c")
    assert absolute(f"{path}:a") == f"{path}:a"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import does_not_exist", r"ModuleNotFoundError.*\(line 1\)"),
        ("x = (", "SyntaxError"),
        ("\n\n1 / 0", r"ZeroDivisionError.*\(line 3\)"),
        ("raise SystemExit(3)", "ends the process"),
        ("from takeup import Pipeline\nPipeline('Bad Name')", r"must match.*\(line 2\)"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why_in_one_line(tmp_path, text, says):
    with pytest.raises(InvalidPipeline, match=says) as caught:
        load(write(tmp_path, "bad.py", text))
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UnknownPipeline, match="no file"):
        load(str(tmp_path / "none.py"))
    with pytest.raises(UnknownPipeline, match="no module"):
        load("no_such_package.flows")
    with pytest.raises(UnknownPipeline, match="declares no pipeline"):
        load(write(tmp_path, "empty.py", ""))
    with pytest.raises(InvalidPipeline, match="two pipelines are named a"):
        load_all([write(tmp_path, "one.py", GOOD), write(tmp_path, "two.py", GOOD)])
