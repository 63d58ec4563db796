"""What schemathesis must not do while it calls the API: wait for work, and end the key that it calls with.

It also writes down how each call was answered, so that it can be seen who was let in.
"""

import os
from pathlib import Path
from typing import Any

import schemathesis

from tests.videos.making import sound

OWN_KEY = os.environ.get("CONTRACT_OWN_KEY", "")
ANSWERS = Path(os.environ["CONTRACT_ANSWERS"])


@schemathesis.serializer("application/offset+octet-stream")
def part_of_file(_context: schemathesis.SerializationContext, value: Any) -> Any:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    is_claim = context.operation is not None and context.operation.label == "POST /api/worker/claim"
    if is_claim and isinstance(body, dict) and isinstance(body.get("wait"), int | float):
        body["wait"] = min(body["wait"], 0)
    if context.operation is not None and context.operation.label == "POST /api/videos":
        return sound()
    return body


@schemathesis.hook
def filter_path_parameters(_context: schemathesis.HookContext, path_parameters: Any) -> bool:
    return not path_parameters or not OWN_KEY or path_parameters.get("key_id") != OWN_KEY


@schemathesis.hook
def after_call(
    _context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response
) -> None:
    with ANSWERS.open("a") as told:
        told.write(f"{case.method} {case.operation.path}\t{response.status_code}\n")
