"""The parts of live events that need no database: names, positions, what is settled, what waits for whom."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.api.sse import Pulse, event_text, farewell_text, place_text
from takeup.core.channels import CHANNELS_MAX, Channel, parse_channel, parse_channels
from takeup.core.errors import InvalidInput
from takeup.core.live import SETTLE_S, Frontier, Settling
from takeup.core.position import TOLD_MAX, Position, parse_position
from takeup.engine.listener import Listener
from takeup.engine.telling import Told, line

JOB = Channel("job", "job_1")
WORKERS = Channel("worker_status")


def logged(seq: int, channel: Channel = JOB) -> Told:
    return Told(channel.kind, channel.name, line({"seq": seq}), seq)


def standing(text: str, channel: Channel = JOB, key: str = "") -> Told:
    return Told(channel.kind, channel.name, line({"text": text}), None, key)


@pytest.mark.parametrize(
    "name", ["worker_status", "job:job_1", "transcode_progress:v-1", "transcode_complete:a.b"]
)
def test_channels_are_known_by_their_names(name: str):
    assert parse_channel(name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "job",
        "job:",
        "jobs:1",
        "worker_status:",
        "worker_status:1",
        "job:a b",
        "job:a\nb",
        "job:a\n",
        "job:" + "x" * 129,
    ],
)
def test_other_names_are_none(name: str):
    with pytest.raises(InvalidInput, match="there is no channel"):
        parse_channel(name)


def test_channels_are_few_and_each_is_meant_once():
    assert parse_channels(["job:a", "worker_status", "job:a"]) == (Channel("job", "a"), WORKERS)
    for names in ([], ["job:a"] * (CHANNELS_MAX + 1)):
        with pytest.raises(InvalidInput):
            parse_channels(names)


@given(st.integers(0, 10**15), st.sets(st.integers(0, 10**15), max_size=40))
def test_a_position_is_read_as_it_was_written(low: int, told: set[int]):
    position = Position.of(low, told)
    assert parse_position(position.text) == position
    assert all(position.has(seq) for seq in told)
    assert position.has(low)
    assert not position.has(max([low, *told]) + 1)
    assert "\n" not in position.text


def test_a_position_is_short():
    assert Position.of(7, {8, 9, 12, 5}).text == "9.3"
    assert Position.of(7, ()).text == "7"
    full = Position.of(0, range(2, 2 * TOLD_MAX + 2, 2))
    assert len(full.text) < 4000
    assert parse_position(full.text) == full
    assert parse_position(Position.of(0, range(2, 2 * TOLD_MAX + 4, 2)).text) is None, "he begins anew"


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.", "1..2", "1.A", "1\n", "1." * 3000, "9" * 19, "1~", "\N{SNOWMAN}"]
)
def test_what_is_no_position(text: str):
    assert parse_position(text) is None


def test_what_is_settled_waits_for_the_oldest_writer():
    settling = Settling(10)
    assert settling.see(Frontier(15, writer=100, oldest=90), 0.0) == 10
    assert settling.see(Frontier(18, writer=105, oldest=95), 1.0) == 10
    assert settling.see(Frontier(18, writer=106, oldest=101), 2.0) == 15
    assert settling.see(Frontier(18, writer=None, oldest=104), 3.0) == 15
    assert settling.see(Frontier(18, writer=None, oldest=104), 1.0 + SETTLE_S) == 18, (
        "nothing of ours lasts so long"
    )
    assert settling.see(Frontier(20, writer=0, oldest=1), 40.0) == 20, "with one writer it is so at once"


def test_a_listener_hears_each_change_once_and_can_go_on_after_it():
    listener = Listener([JOB], Position(10, frozenset({12})))
    for seq in (11, 12, 14, 14, 9):
        listener.tell_row(seq, [logged(seq)])
    items = listener.take()
    assert [item.told.seq for item in items] == [11, 14]
    assert [item.position.text for item in items if item.position] == ["12", "12.2"]
    listener.settle(13)
    assert listener.position.text == "14"
    listener.tell_row(13, [logged(13)])
    assert listener.take() == []


def test_two_channels_of_one_change_move_the_place_once():
    other = Channel("transcode_complete", "v")
    listener = Listener([JOB, other], Position(1))
    listener.tell_row(2, [logged(2), logged(2, other)])
    assert [item.position.text for item in listener.take() if item.position] == ["1", "2"]


def test_of_how_things_stand_only_the_latest_waits():
    listener = Listener([JOB, WORKERS], Position(0))
    for number in range(5):
        listener.tell(standing(f"{number}"))
        listener.tell(standing(f"w{number}", WORKERS, "w"))
    assert [json.loads(item.told.data)["text"] for item in listener.take()] == ["4", "w4"]
    listener.tell(standing("old"))
    listener.tell_row(1, [logged(1)])
    assert [item.told.seq for item in listener.take()] == [1], (
        "what is older than a change is not told after it"
    )


def test_whoever_is_too_slow_is_ended():
    listener = Listener([JOB], Position(0), waiting_max=3)
    for seq in range(1, 6):
        listener.tell_row(seq, [logged(seq)])
    assert listener.ended == "slow"
    listener.end("shutdown")
    assert listener.ended == "slow", "the first reason counts"
    assert len(listener.take()) == 3


async def test_a_listener_wakes_for_news_and_for_its_end():
    listener = Listener([JOB], Position(0))
    await listener.wait(0.001)
    waiting = asyncio.create_task(listener.wait(60))
    await asyncio.sleep(0)
    listener.tell(standing("x"))
    await asyncio.wait_for(waiting, 1)
    over = asyncio.create_task(listener.over())
    listener.end("refused")
    await asyncio.wait_for(over, 1)


def test_s108_an_event_is_one_line_whatever_is_in_it():
    evil = "a\nid: 9\r\ndata: x\u2028\u2029\x00\x85\n\nevent: evil"
    listener = Listener([JOB], Position(0))
    listener.tell_row(1, [Told("job", JOB.name, line({"reason": evil}), 1)])
    (item,) = listener.take()
    assert event_text(item).splitlines() == ["id: 1", "event: job", f"data: {item.told.data}", ""]
    assert json.loads(item.told.data) == {"reason": evil}
    assert farewell_text("slow") == 'event: end\ndata: {"reason":"slow"}\n\n'
    assert place_text(listener) == "id: 1\n\n"


def test_a_heart_beats_by_the_clock():
    now = 0.0
    pulse = Pulse(30.0, lambda: now)
    beats = []
    for _ in range(13):
        beats.append(pulse.beats())
        now += 10
    assert [number for number, beat in enumerate(beats) if beat] == [3, 6, 9, 12]
    assert pulse.left_s == 20
