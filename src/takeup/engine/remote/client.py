"""Speaks HTTP with a server: the one place that knows the client library, and answers as errors."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import httpx2

from takeup import __version__
from takeup.core.errors import (
    Conflict,
    FileChanged,
    InvalidInput,
    KeyRefused,
    LeaseLost,
    NotFound,
    TakeupError,
    WorkerRefused,
)

CONNECTIONS_MAX = 16
ANSWER_S, CONNECT_S = 30.0, 10.0
DETAIL_CHARS_MAX = 1000
BLOCK_BYTES = 1 << 20
HELP = "Check the address after --server, and that the server runs and can be reached from here."


class ServerUnavailable(TakeupError):
    """The server cannot be reached or cannot answer now; whether the last call was obeyed is unknown."""

    retryable = True
    http_status = 503
    help = HELP


class Mangled(InvalidInput):
    """What arrived at the server is not what was sent."""

    retryable = True


class AllRefused(Conflict):
    """Every report of a call was refused; the answers say why."""

    def __init__(self, message: str, answers: list[Any]) -> None:
        super().__init__(message)
        self.answers = answers


MEANINGS: dict[int, type[TakeupError]] = {
    HTTPStatus.UNAUTHORIZED: KeyRefused,
    HTTPStatus.FORBIDDEN: WorkerRefused,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.PRECONDITION_FAILED: FileChanged,
}


class Client:
    """Calls of one key to one server, or to several on the same database: any of them can answer any call."""

    def __init__(self, urls: str, key: str, *, headers: Mapping[str, str] | None = None) -> None:
        """Nothing is sent before the first call; addresses of several servers have commas between."""
        self._urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()] or [""]
        self._turn = 0
        for url in self._urls:
            if not url.startswith(("http://", "https://")):
                raise InvalidInput(f"the server's address {url!r} must begin with http:// or https://")
        shown = {"User-Agent": f"takeup/{__version__}", **(headers or {})}
        if key:
            shown["Authorization"] = f"Bearer {key}"
        self._http = httpx2.AsyncClient(
            headers=shown,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX),
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_S,
    ) -> Any:
        """The JSON of the answer, for which the server has so long."""
        timeout = httpx2.Timeout(within_s, connect=min(CONNECT_S, within_s))
        with self._asking() as url:
            answer = await self._http.request(
                method, url + path, json=body, headers=dict(headers or {}), timeout=timeout
            )
            _check(answer)
        return answer.json() if answer.content else None

    @contextlib.asynccontextmanager
    async def get(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[Mapping[str, str], int, AsyncIterator[bytes]]]:
        """The headers, the status and the body of a file, as it comes."""
        with self._asking() as url:
            async with self._http.stream("GET", url + path, headers=dict(headers)) as answer:
                if answer.status_code >= HTTPStatus.BAD_REQUEST:
                    await answer.aread()
                _check(answer)
                yield answer.headers, answer.status_code, answer.aiter_bytes(BLOCK_BYTES)

    async def put(self, path: str, content: AsyncIterator[bytes], headers: Mapping[str, str]) -> Any:
        """Send a body as it is read; answers with the JSON of the answer."""
        with self._asking() as url:
            answer = await self._http.put(url + path, content=content, headers=dict(headers))
            _check(answer)
        return answer.json()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[str]:
        """Which server to ask; if it does not answer, the next one is asked by whoever asks again."""
        turn = self._turn
        try:
            yield self._urls[turn % len(self._urls)]
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            self._pass_by(turn)
            words = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ServerUnavailable(f"the server did not answer ({words})") from None
        except ServerUnavailable:
            self._pass_by(turn)
            raise

    def _pass_by(self, turn: int) -> None:
        """Calls that failed together pass the same server by, not the one after it too."""
        if self._turn == turn:
            self._turn += 1


def _check(answer: httpx2.Response) -> None:
    """Raise what the server means by a refusal."""
    status = answer.status_code
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return
    try:
        told = answer.json()
    except ValueError:
        told = {}
    told = told if isinstance(told, dict) else {}
    detail = str(told.get("detail") or f"the server answered {status}")[:DETAIL_CHARS_MAX]
    advice = told.get("advice")
    advice = str(advice)[:DETAIL_CHARS_MAX] if advice else None
    if status == HTTPStatus.CONFLICT and isinstance(told.get("answers"), list):
        raise AllRefused(detail, told["answers"])
    if status in MEANINGS:
        raise MEANINGS[status](detail, advice=advice)
    if status == HTTPStatus.CONFLICT:
        kind = LeaseLost if told.get("code") == "lease_lost" else Conflict
        raise kind(detail, advice=advice)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ServerUnavailable(detail, advice=advice)
    if told.get("code") == "bad_upload":
        raise Mangled(detail, advice=advice)
    raise InvalidInput(detail, advice=advice)
