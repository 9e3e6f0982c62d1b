"""What the wire-level switches do to a response (see `switches`); pure but for the waiting of `hung`."""

from __future__ import annotations

import json
from typing import Any, Final

from .access import unauthorized
from .errors import ApiError
from .http_message import Request, Response, json_response
from .switches import SwitchBoard, Switches

_PROXY_PAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
_LOOK_AGAIN_SECONDS: Final = 1.0


def hang(request: Request, board: SwitchBoard, of_tag: Switches) -> None:
    """Keep the request waiting while it is told to hang; ConnectionResetError once its client has gone."""
    while board.current.over(of_tag).hung:
        board.wait_until_answering(of_tag, _LOOK_AGAIN_SECONDS)
        if request.client_is_gone():
            raise ConnectionResetError("the client of a hung request left")


def replacement(switches: Switches) -> Response | None:
    """Return the response that replaces whatever the API would say, None for none; ApiError for a plain refusal."""
    if switches.html_error:
        return Response(502, _PROXY_PAGE, "text/html")
    if switches.unauthorized:
        raise unauthorized()
    if switches.refusal is not None:
        code = switches.refusal["code"]
        return json_response({"error": f"refused by switch: {code}", "code": code}, switches.refusal["status"])
    return None


def spoiled(response: Response, switches: Switches) -> Response:
    """Return `response`, cut in half with status 200 when the switches say so."""
    if not switches.invalid_json or response.content_type != "application/json":
        return response
    return Response(200, response.body[: len(response.body) // 2] or b"{", headers=response.headers)


def refuse_full_queue(switches: Switches) -> None:
    """Refuse a decision when told that the queue is full; ApiError `QUEUE_FULL`."""
    if switches.queue_full:
        raise queue_full()


def queue_full() -> ApiError:
    """Return the refusal of a decision beyond the queue's bound."""
    return ApiError("QUEUE_FULL", "too many requests are waiting, try again", headers={"Retry-After": "1"})


def with_field_set(document: dict[str, Any], switches: Switches, dropped: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `document` as an older version (without `dropped`) or a future one (with unknown fields) would send it."""
    if switches.field_set == "old":
        return {key: value for key, value in document.items() if key not in dropped}
    if switches.field_set == "future":
        return document | {"x_unknown": {"since": "99.0.0", "values": [1, None, json.dumps("text")]}}
    return document
