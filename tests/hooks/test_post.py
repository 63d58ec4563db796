"""One call: to the address that was judged and to no other, within its time, whatever is answered."""

import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from takeup.net.calling import Unreachable
from takeup.net.guard import Forbidden, Guard, networks
from takeup.net.post import Poster
from takeup.net.reply import BODY_BYTES_MAX, HEAD_BYTES_MAX
from takeup.net.resolving import Resolve, Unresolved
from tests.hooks.receiver import never_ends, receiving, says, says_nothing, writes

HERE = Guard(networks("127.0.0.0/8"), allows_http=True)
NAME = "hooks.example"


def finds(*answers: Sequence[str] | OSError) -> Resolve:
    """A resolver that gives these answers, one a call, the last one for ever."""
    left = list(answers)

    async def resolve(name: str) -> Sequence[str]:
        assert name == NAME
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    return resolve


def poster(*answers: Sequence[str] | OSError, timeout_s: float = 5.0, **options: Any) -> Poster:
    return Poster(
        options.pop("guard", HERE),
        timeout_s=timeout_s,
        resolve=finds(*(answers or (["127.0.0.1"],))),
        **options,
    )


async def test_a_body_arrives_with_its_headers_and_the_name_that_was_meant():
    async with receiving(says(201, "made")) as receiver:
        reply = await poster().post(
            f"http://{NAME}:{receiver.port}/a/b?c=d", {"webhook-id": "msg_1"}, b'{"a":1}'
        )
    assert (reply.status, reply.is_success, reply.text) == (201, True, "made")
    (got,) = receiver.received
    assert (got.line, got.body) == ("POST /a/b?c=d HTTP/1.1", b'{"a":1}')
    assert (got.headers["host"], got.headers["webhook-id"]) == (f"{NAME}:{receiver.port}", "msg_1")
    assert got.headers["content-type"] == "application/json"


async def test_s111_s112_a_name_that_changes_its_meaning_is_judged_each_time():
    strict = Guard(networks("127.0.0.2"), allows_http=True)
    async with receiving() as receiver:
        url = f"http://{NAME}:{receiver.port}/"
        caller = poster(["1.1.1.1"], ["127.0.0.1"], guard=strict)
        await caller.check(url)
        with pytest.raises(Forbidden, match=r"127\.0\.0\.1"):
            await caller.post(url, {}, b"")
        for answer in (["1.1.1.1", "127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["fe80::1%lo"]):
            with pytest.raises((Forbidden, Unresolved)):
                await poster(answer, guard=strict).post(url, {}, b"")
        with pytest.raises(Forbidden):
            await poster(guard=strict).check(url)
        assert receiver.received == []


async def test_s112_what_was_judged_is_what_is_called():
    """Asked again the name would mean a machine that may not be called; nobody asks again."""
    async with receiving() as receiver:
        caller = poster(["127.0.0.1"], ["169.254.169.254"])
        assert (await caller.post(f"http://{NAME}:{receiver.port}/", {}, b"")).is_success
        with pytest.raises(Forbidden):
            await caller.post(f"http://{NAME}:{receiver.port}/", {}, b"")


async def test_s113_a_name_that_is_not_found_is_not_called():
    caller = poster(OSError("no such name"), [], ["127.0.0.1"])
    async with receiving() as receiver:
        for _ in range(2):
            with pytest.raises(Unresolved, match=NAME):
                await caller.post(f"http://{NAME}:{receiver.port}/", {}, b"")
        assert receiver.received == []


async def test_s114_redirects_are_not_followed():
    async with receiving() as other, receiving() as receiver:
        receiver.answer = says(302, location=f"http://127.0.0.1:{other.port}/")
        reply = await poster().post(f"http://{NAME}:{receiver.port}/", {}, b"")
    assert (reply.status, reply.is_success, other.received) == (302, False, [])


async def test_s117_slow_and_endless_answers_end():
    async with receiving(says_nothing) as receiver:
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"no answer within 0\.3 s"):
            await poster(timeout_s=0.3).post(f"http://{NAME}:{receiver.port}/", {}, b"")
        assert time.monotonic() - began < 2
    async with receiving(never_ends) as receiver:
        reply = await poster().post(f"http://{NAME}:{receiver.port}/", {}, b"")
        assert (reply.status, len(reply.body)) == (200, BODY_BYTES_MAX)
    async with receiving(writes(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * HEAD_BYTES_MAX)) as receiver:
        with pytest.raises(Unreachable, match="head is longer"):
            await poster().post(f"http://{NAME}:{receiver.port}/", {}, b"")


@pytest.mark.parametrize(
    ("data", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore", 200, b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
            200,
            b"abcde",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", 200, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil it ends", 200, b"until it ends"),
        (b"HTTP/1.1 200\r\nContent-Length: -5\r\n\r\nab", 200, b"ab"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nab", 200, b"ab"),
    ],
)
async def test_answers_are_read_as_they_come(data: bytes, status: int, body: bytes):
    async with receiving(writes(data)) as receiver:
        reply = await poster().post(f"http://{NAME}:{receiver.port}/", {}, b"")
    assert (reply.status, reply.body) == (status, body)


@pytest.mark.parametrize("data", [b"", b"hello\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_what_is_no_answer_is_a_failure(data: bytes):
    async with receiving(writes(data)) as receiver:
        with pytest.raises(Unreachable, match="no answer"):
            await poster().post(f"http://{NAME}:{receiver.port}/", {}, b"")


async def test_nobody_there_is_a_failure_and_the_next_address_is_tried():
    async with receiving() as receiver:
        url = f"http://{NAME}:{receiver.port}/"
        with pytest.raises(Unreachable, match="no connection: Connection refused"):
            await poster(["127.0.0.3"]).post(url, {}, b"")
        assert (await poster(["127.0.0.3", "127.0.0.1"]).post(url, {}, b"")).is_success


async def test_headers_cannot_be_smuggled():
    async with receiving() as receiver:
        with pytest.raises(ValueError, match="cannot be sent"):
            await poster().post(f"http://{NAME}:{receiver.port}/", {"webhook-id": "a\r\nx: y"}, b"")
        assert receiver.received == []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "both.pem"
    made = (
        f"-keyout {file} -out {tmp_path}/cert.pem -days 2 -subj /CN={NAME} -addext subjectAltName=DNS:{NAME}"
    )
    kind = "-x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    subprocess.run(["openssl", "req", *kind.split(), *made.split()], check=True, capture_output=True)  # noqa: S607
    file.write_text(file.read_text() + (tmp_path / "cert.pem").read_text())
    return file


async def test_s112_tls_knows_the_name_although_an_address_is_called(certificate: Path):
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    names: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)  # type: ignore[assignment]
    trust = ssl.create_default_context(cafile=str(certificate))
    async with receiving(trust=serving) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        assert (await poster(trust=trust).post(url, {}, b"x")).text == "thanks"
        assert names == [NAME]
        with pytest.raises(Unreachable, match="certificate was not believed"):
            await poster().post(url, {}, b"x")
        with pytest.raises(Unreachable, match="certificate was not believed"):
            await poster(trust=trust).post(f"https://127.0.0.1:{receiver.port}/", {}, b"x")
        assert len(receiver.received) == 1
