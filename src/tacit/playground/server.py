"""The playground's server: loopback only, and as little as possible.

It answers four kinds of requests: the files of the page (read into memory when it starts: no request ever reaches a
disk), the presets, a check of a scene, and a solution of one. It keeps nothing between requests. Defences:

* It binds to loopback addresses only, and answers only requests whose Host is this very server (a page elsewhere that
  has its name resolved to 127.0.0.1 sends its own name). A POST must come from this page (Origin) and be JSON.
* A request has a size limit, must arrive within seconds however slowly it drips, and connections are served by a
  limited number of threads; further ones wait in the operating system's queue.
* One scene is solved at a time. A newer request of the same page replaces an older one, which is stopped; when too
  many pages wait, the next is told to come again.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from tacit import __version__
from tacit.errors import UserError
from tacit.playground.answer import Answer, Superseded, answer
from tacit.playground.presets import limits, presets
from tacit.playground.scene import SceneEntry, parse, short
from tacit.run.log import logger

Request = dict[str, Any]
"""The JSON object that a page sends."""

MAX_BODY = 1_000_000
READ_SECONDS = 10.0
"""Seconds within which a whole request must have arrived."""
THREADS = 128
WAITING = 32
"""Pages whose scene may wait to be solved."""

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that is not answered, with the status and the reason that are sent instead."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Desk:
    """Whose turn it is to be solved: one at a time, and of each page only its newest request."""

    def __init__(self, places: int = WAITING) -> None:
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        self._newest: dict[str, int] = {}
        self._places = places
        self._busy = False

    @contextmanager
    def turn(self, page: str) -> Iterator[Callable[[], bool]]:
        """Wait for it; yields a function that tells whether the page has sent a newer request since.

        Raises Superseded if that happens while waiting, and Refused when too many other pages wait.
        """
        with self._changed:
            if page not in self._newest and len(self._newest) >= self._places:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are asking at once; try again shortly")
            ticket = self._newest[page] = next(self._tickets)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy or self._newest.get(page) != ticket)
            if self._newest.get(page) != ticket:
                raise Superseded
            self._busy = True
        try:
            yield lambda: self._newest.get(page) != ticket
        finally:
            with self._changed:
                self._busy = False
                if self._newest.get(page) == ticket:
                    del self._newest[page]
                self._changed.notify_all()


class Server(ThreadingHTTPServer):
    """The playground on a loopback address; `serve_forever` runs it, `shutdown` from another thread ends that."""

    daemon_threads = True
    request_queue_size = 2048

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise UserError(f"the playground is for this machine alone: {host} is not a loopback address (127.0.0.1)")
        if not 0 <= port <= 65535:
            raise UserError(f"--port must be a number from 0 to 65535, not {port}")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.desk = Desk()
        self.files = _files()
        self._slots = threading.BoundedSemaphore(THREADS)
        self._arriving: dict[socket.socket, float] = {}
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise UserError(
                f"cannot listen on port {port}: {error.strerror or error}; --port 0 takes any free one"
            ) from None

    def server_bind(self) -> None:
        # Without HTTPServer's look-up of the machine's name, which may ask the network.
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{self._names()[0]}:{self.port}/"

    def _names(self) -> tuple[str, ...]:
        own = str(self.server_address[0])
        return (f"[{own}]" if ":" in own else own, "localhost", "127.0.0.1", "[::1]")

    def hosts(self) -> set[str]:
        """What a Host header may say."""
        return {f"{name}:{self.port}" for name in self._names()} | (set(self._names()) if self.port == 80 else set())

    # -- connections ---------------------------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._slots.acquire(timeout=0.1):
            self.service_actions()
        self._arriving[request] = time.monotonic() + READ_SECONDS
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.arrived(request)
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.arrived(request)
            self._slots.release()

    def arrived(self, request: socket.socket) -> None:
        """The request of this connection has been read; it may now take its time."""
        self._arriving.pop(request, None)

    def service_actions(self) -> None:
        """Called several times a second: close connections whose request does not arrive in time."""
        now = time.monotonic()
        for request, deadline in list(self._arriving.items()):
            if now > deadline:
                self.arrived(request)
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of ours in one line; a client that hangs up is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logger.error(f"playground: {type(error).__name__}: {short(str(error))}")


class Handler(BaseHTTPRequestHandler):
    """Answers one request per connection."""

    server: Server
    timeout = READ_SECONDS
    server_version = f"tacit/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_HEAD(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _get(self) -> tuple[str, bytes]:
        self.server.arrived(self.connection)
        path = self.path.partition("?")[0]
        if path not in self.server.files:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {short(path)}")
        return self.server.files[path]

    def _post(self) -> tuple[str, bytes]:
        jobs: dict[str, Callable[[Request], object]] = {"/api/check": self._check, "/api/solve": self._solve}
        if self.path not in jobs:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {short(self.path)}")
        return _TYPES["json"], _json(jobs[self.path](self._body()))

    def _check(self, request: Request) -> dict[str, SceneEntry]:
        return {"scene": parse(request.get("scene")).to_json()}

    def _solve(self, request: Request) -> Answer:
        page = request.get("page")
        if not isinstance(page, str) or not re.fullmatch(r"[A-Za-z0-9-]{1,64}", page):
            raise UserError('"page" must name the page that asks: 1 to 64 letters, digits and hyphens')
        scene = parse(request.get("scene"))
        with self.server.desk.turn(page) as superseded:
            return answer(scene, compare=request.get("compare") is True, superseded=superseded)

    # -- who asks, and how much ----------------------------------------------------------------------------------------

    def _body(self) -> Request:
        origins = self.headers.get_all("Origin", [])
        if len(origins) != 1 or origins[0].lower() not in {f"http://{host}" for host in self.server.hosts()}:
            raise Refused(HTTPStatus.FORBIDDEN, "only the playground's own page may ask for this")
        if self.headers.get_content_type() != _TYPES["json"]:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request must be application/json")
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not re.fullmatch("[0-9]{1,12}", lengths[0]):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the request must say how long it is, once, in Content-Length")
        length = int(lengths[0])
        if length > MAX_BODY:
            self._drain(min(length, 4 * MAX_BODY))
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request has {length} bytes; at most {MAX_BODY} are taken"
            )
        body = self.rfile.read(length)
        self.server.arrived(self.connection)
        if len(body) < length:
            raise Refused(HTTPStatus.BAD_REQUEST, "the request ended before it was complete")
        try:
            data = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "the request is not valid JSON") from None
        if not isinstance(data, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "the request must be a JSON object")
        return data

    def _drain(self, length: int) -> None:
        """Read what is thrown away: a client still sending would not see the answer."""
        while length > 0 and (piece := self.rfile.read1(min(length, 65536))):
            length -= len(piece)

    def _respond(self, make: Callable[[], tuple[str, bytes]]) -> None:
        try:
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts():
                raise Refused(HTTPStatus.FORBIDDEN, f"this server answers only at {self.server.url}")
            kind, body = make()
            self._send(HTTPStatus.OK, kind, body)
        except Refused as refusal:
            self.send_error(refusal.status, refusal.reason)
        except Superseded:
            self.send_error(HTTPStatus.CONFLICT, "superseded by a newer request")
        except UserError as error:
            self.send_error(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except OSError:
            self.close_connection = True  # the client has gone
        except Exception as error:
            logger.error(f"playground: {type(error).__name__}: {short(str(error))}")
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong here; the terminal says what")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error as JSON with the same headers; also for requests that are not valid HTTP."""
        self.close_connection = True
        self.server.arrived(self.connection)
        text = message or HTTPStatus(code).phrase
        with suppress(OSError):
            self._send(code, _TYPES["json"], _json({"error": text[:500]}))

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the terminal is for what matters."""


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _json(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def _files() -> dict[str, tuple[str, bytes]]:
    """{path: (type, content)} of everything that can be fetched with GET."""
    files = {"/api/presets": (_TYPES["json"], _json({"presets": presets(), "limits": limits()}))}
    for file in resources.files("tacit.playground").joinpath("page").iterdir():
        suffix = file.name.rpartition(".")[2]
        if suffix in _TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            files[path] = (_TYPES[suffix], file.read_bytes())
    return files
