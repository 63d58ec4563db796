"""Bodies are read strictly: JSON that means one thing only, of the type that was said, within a size."""

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from http import HTTPStatus
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from takeup.api.access import known_caller
from takeup.core.errors import InvalidInput

DIGITS_MAX = 400
JSON = "application/json"


def words_in_path(kind: str, words: Iterable[str]) -> None:
    """Let `{name:KIND}` in a path stand for these words alone, so that others are other calls, or none."""
    made = type(kind, (StringConvertor,), {"regex": "|".join(words)})
    register_url_convertor(kind, made())


class StrictRequest(Request):
    """A request whose JSON has no name twice, no number that is none, and no depth without end."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = loads(await self.body())
        return self._json


class OpenRoute(APIRoute):
    """A route that takes JSON, and only the parameters there are; who calls is its own affair."""

    async def enter(self, request: Request) -> None:
        """Comes before anything else of the request is looked at."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None
        known = {field.alias for field in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            await self.enter(request)
            if unknown := set(request.query_params) - known:
                raise InvalidInput(
                    f"{min(unknown)[:80]!r} is no parameter here; there are: {', '.join(known)}"
                )
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if takes_body and kind != JSON:
                raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


class StrictRoute(OpenRoute):
    """One for known callers: nobody's body is read, and nobody's mistakes are told."""

    async def enter(self, request: Request) -> None:
        await known_caller(request)


def loads(body: bytes) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(
            body, object_pairs_hook=_pairs, parse_constant=_no_number, parse_int=_whole, parse_float=_real
        )
    except RecursionError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the JSON is nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "a name stands twice in one object")
    return found


def _no_number(text: str) -> NoReturn:
    raise HTTPException(HTTPStatus.BAD_REQUEST, f"{text} is no number of JSON")


def _whole(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"a number has more than {DIGITS_MAX} digits")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"{text[:40]} is beyond what a number can be")
    return number
