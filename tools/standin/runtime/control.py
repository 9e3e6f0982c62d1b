"""The control listener: failure switches turned while the daemon runs, on a port of its own.

It does not belong to the contract, so it is off unless ``OLLAYA_STANDIN_CONTROL`` names an address, for example
``0.0.0.0:11436``, and it never shares the daemon's port.

===========  =================  ==============================================================================
method       path               effect
===========  =================  ==============================================================================
GET          ``/switches``      the switches of the process, as JSON
PUT          ``/switches``      replace them all by the JSON object sent; 422 names what is wrong
PATCH        ``/switches``      change those sent, ``null`` switches off
GET          ``/requests``      how often the API answered what: ``{"GET /api/ps 200": 3}``
POST         ``/kill``          kill the child of ``{"model": name}``; of every model for ``{}``
===========  =================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from .errors import ApiError
from .http_message import Request, Response, error_response, json_response
from .residency import Residency
from .switches import SwitchBoard, SwitchError, Switches, parse_switches
from .tally import RequestTally


class Control:
    """The application of the control listener; `on_turn` hears of every new setting."""

    def __init__(
        self, board: SwitchBoard, residency: Residency, tally: RequestTally, on_turn: Callable[[Switches], None]
    ) -> None:
        self._board = board
        self._residency = residency
        self._tally = tally
        self._on_turn = on_turn

    def __call__(self, request: Request) -> Response:
        """Return the response; a refusal has the API's error format."""
        try:
            return self._answer(request)
        except ApiError as error:
            return error_response(error)
        except SwitchError as error:
            return error_response(ApiError("INVALID_REQUEST", str(error)))

    def _answer(self, request: Request) -> Response:
        match request.method, request.path:
            case "GET", "/switches":
                return self._shown()
            case "PUT", "/switches":
                return self._turn(request.json_object())
            case "PATCH", "/switches":
                return self._turn({**self._board.current.as_json(), **request.json_object()})
            case "GET", "/requests":
                return json_response(self._tally.as_json())
            case "POST", "/kill":
                model = request.json_object().get("model")
                return json_response({"killed": self._residency.kill(model if isinstance(model, str) else None)})
            case _:
                raise ApiError("NOT_FOUND", f"no such control: {request.method} {request.path}")

    def _turn(self, document: dict[str, object]) -> Response:
        switches = parse_switches(document)
        self._board.turn(switches)
        self._on_turn(switches)
        return self._shown()

    def _shown(self) -> Response:
        return json_response(self._board.current.as_json())
