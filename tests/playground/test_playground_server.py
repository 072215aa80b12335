"""The playground's server: whom it refuses, what it limits, what it survives."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import UserError
from tacit.playground import server as playground_server
from tacit.playground.scene import LARGEST_SIDE, MOST_STEPS, parse
from tacit.playground.server import MAX_BODY, Server
from test_playground import scene


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


def ask(
    server: Server, method: str, path: str, body: Any = None, **headers: str | None
) -> tuple[int, dict[str, str], bytes]:
    """One request as the page would make it; headers given as None are left out."""
    own = {"Host": f"127.0.0.1:{server.port}"}
    if method == "POST":
        own |= {"Origin": server.url.rstrip("/"), "Content-Type": "application/json"}
    sent = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None and "Content-Length" not in sent:
            sent["Content-Length"] = str(len(data))
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def raw(server: Server, data: bytes, *, finish: bool = True, seconds: float = 20) -> bytes:
    """Bytes in, bytes out."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            if finish:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            return b""
        return answer


def drip(connection: socket.socket) -> bool:
    """Send one byte; False when the other end has hung up."""
    try:
        connection.sendall(b"G")
    except OSError:
        return False
    return True


def is_alive(server: Server) -> bool:
    return ask(server, "GET", "/")[0] == 200


def test_the_page_and_its_headers(server: Server) -> None:
    status, headers, body = ask(server, "GET", "/")
    assert status == 200
    assert b"<title>Tacit playground</title>" in body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    for path, kind in (("/playground.js", "text/javascript"), ("/playground.css", "text/css")):
        assert ask(server, "GET", path)[1]["Content-Type"].startswith(kind)
    status, headers, body = ask(server, "HEAD", "/")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


def test_nothing_on_the_page_comes_from_elsewhere(server: Server) -> None:
    for path, (_, content) in server.files.items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert "http:" not in text, path
        assert "https:" not in text, path


def test_solve_and_check(server: Server) -> None:
    status, _, body = ask(server, "POST", "/api/solve", {"page": "p1", "scene": scene(), "compare": True})
    found = json.loads(body)
    assert status == 200
    assert found["status"].startswith("rule ")
    assert found["comparison"]["constrained"] == 1
    status, _, body = ask(server, "POST", "/api/check", {"scene": scene(slip=0.25)})
    assert status == 200
    assert parse(json.loads(body)["scene"]).slip == 0.25
    status, _, body = ask(server, "POST", "/api/check", {"scene": scene(slip=2)})
    assert (status, "slip must be" in json.loads(body)["error"]) == (422, True)
    assert ask(server, "POST", "/api/solve", {"scene": scene()})[0] == 422
    assert ask(server, "POST", "/api/solve", {"page": "no/slash", "scene": scene()})[0] == 422


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../scene.py",
        "/..%2f..%2fscene.py",
        "//etc/passwd",
        "/page/index.html",
        "/index.html",
        "file:///etc/passwd",
        "http://example.com/",
        "/api/solve",
        "/%00",
    ],
)
def test_no_file_is_within_reach(server: Server, path: str) -> None:
    status, headers, body = ask(server, "GET", path)
    assert status == 404
    assert headers["Content-Type"].startswith("application/json")
    assert b"root:" not in body


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "", None],
)
def test_other_hosts_are_refused(server: Server, host: str | None) -> None:
    named = None if host is None else host.format(port=server.port)
    for method, path, body in (("GET", "/", None), ("POST", "/api/check", {"scene": scene()})):
        status, _, said = ask(server, method, path, body, Host=named)
        assert status == 403
        assert b"<title>" not in said
    twice = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nHost: evil.example\r\n\r\n"
    assert raw(server, twice.encode()).startswith(b"HTTP/1.0 403")


def test_names_of_this_machine_are_accepted(server: Server) -> None:
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert ask(server, "GET", "/", Host=f"{name}:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", None]
)
def test_other_origins_are_refused(server: Server, origin: str | None) -> None:
    named = None if origin is None else origin.format(port=server.port)
    for path in ("/api/solve", "/api/check"):
        assert ask(server, "POST", path, {"page": "p", "scene": scene()}, Origin=named)[0] == 403


def test_requests_that_are_not_ours(server: Server) -> None:
    assert ask(server, "POST", "/api/check", {"scene": scene()}, Content_Type="text/plain")[0] == 415
    assert ask(server, "POST", "/api/check", {"scene": scene()}, Content_Type=None)[0] == 415
    assert ask(server, "POST", "/", {"scene": scene()})[0] == 404
    assert ask(server, "PUT", "/api/check", {})[0] == 501
    assert ask(server, "OPTIONS", "/api/check")[0] == 501
    for body in (
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"scene": NaN}',
        b'{"x": ' + b"9" * 9000 + b"}",
    ):
        assert ask(server, "POST", "/api/check", body)[0] == 400
    assert is_alive(server)


def test_sizes_are_limited(server: Server) -> None:
    status, _, said = ask(server, "POST", "/api/check", b" " * (MAX_BODY + 1))
    assert status == 413
    assert b"at most" in said
    for length in ("-1", "1e9", "0x10", "", "9" * 30, "10, 10"):
        assert ask(server, "POST", "/api/check", None, Content_Length=length)[0] == 411
    assert ask(server, "POST", "/api/check", None, Content_Length=None)[0] == 411
    assert ask(server, "POST", "/api/check", b"0\r\n\r\n", Transfer_Encoding="chunked")[0] == 411
    assert raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n")[9:12] in (b"414", b"")
    many = b"".join(b"X-%d: y\r\n" % i for i in range(300))
    assert raw(server, b"GET / HTTP/1.1\r\n" + many + b"\r\n")[9:12] == b"431"
    # The largest scene that is allowed fits.
    steps = MOST_STEPS
    wide = ["S" + "." * (LARGEST_SIDE - 2) + "G", *["." * LARGEST_SIDE] * (LARGEST_SIDE - 1)]
    path = {"cells": [[10 + i % 2, 18] for i in range(steps + 1)], "actions": [7] * steps}
    assert len(json.dumps({"scene": scene(rows=wide, demonstrations=[path] * 100)})) < MAX_BODY
    assert is_alive(server)


@given(st.binary(max_size=400) | st.text(max_size=200).map(lambda text: f"GET {text} HTTP/1.1\r\n\r\n".encode()))
def test_malformed_requests(data: bytes) -> None:
    said = raw(SHARED.server, data)
    assert not said or said.startswith((b"HTTP/1.0 4", b"HTTP/1.0 5", b"{"))  # HTTP/0.9 has no status line


class SHARED:
    """The running server, for the test above: hypothesis does not like fixtures."""

    server: Server


@pytest.fixture(autouse=True, scope="module")
def _share(server: Server) -> None:
    SHARED.server = server


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"POST /api/check HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    ],
)
def test_what_is_no_http(server: Server, data: bytes) -> None:
    said = raw(server, data)
    assert b"200 OK" not in said
    assert b"Traceback" not in said
    assert is_alive(server)


def test_slow_clients_are_hung_up_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte at a time never runs into a socket's own timeout; the whole request has a deadline."""
    monkeypatch.setattr(playground_server, "READ_SECONDS", 0.5)
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        while drip(connection):
            time.sleep(0.1)
            assert time.monotonic() - begun < 10
    head = f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.url[:-1]}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    raw(server, head.encode(), finish=False)  # returns, because the server hangs up
    assert time.monotonic() - begun < 10
    assert is_alive(server)


def test_a_page_that_asks_again_gets_its_newest_answer(server: Server) -> None:
    big = ["S" + "." * 18 + "G", *["." * 20] * 12]
    slow = {"page": "same", "scene": {"rows": big, "expert": {"n": 5}}}
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ask, server, "POST", "/api/solve", slow)
        time.sleep(0.3)
        last = pool.submit(ask, server, "POST", "/api/solve", {"page": "same", "scene": scene()})
        assert last.result()[0] == 200
        assert first.result()[0] in (200, 409)


def test_a_thousand_requests_at_once(server: Server) -> None:
    """All connected before the first is answered; files, checks, solutions, garbage and silence, mixed."""
    count = 1000
    gate = threading.Barrier(50)
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()
    host = f"127.0.0.1:{server.port}"

    def request(number: int) -> bytes:
        kind = number % 5
        if kind == 0:
            return f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        if kind == 1:
            return f"GET /api/presets HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        if kind == 4:
            return b"\xff\x00garbage\r\n\r\n"
        body = json.dumps({"page": f"p{number % 3}", "scene": scene()}).encode()
        path = "/api/check" if kind == 2 else "/api/solve"
        if kind == 2:
            body = json.dumps({"scene": scene()}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def client(first: int) -> None:
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(count // 50)]
        gate.wait(60)
        for offset, connection in enumerate(connections):
            connection.sendall(request(first + offset))
        for offset, connection in enumerate(connections):
            said = b""
            while piece := connection.recv(65536):
                said += piece
            connection.close()
            with lock:
                outcomes[f"{(first + offset) % 5}: {said[9:12].decode()}"] += 1

    threads = [threading.Thread(target=client, args=(i * (count // 50),)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(outcomes.values()) == count
    assert outcomes["0: 200"] == outcomes["1: 200"] == outcomes["2: 200"] == count // 5
    solved = {key: value for key, value in outcomes.items() if key.startswith("3")}
    assert set(solved) <= {"3: 200", "3: 409"}, solved  # superseded ones are told so
    assert solved["3: 200"] >= 3
    assert not any(key.startswith("4: 2") for key in outcomes)
    assert is_alive(server)
    assert threading.active_count() < 50, "threads are left behind"


def test_only_loopback() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "localhost", "example.com", ""):
        with pytest.raises(UserError, match="loopback"):
            Server(host=host)
    with pytest.raises(UserError, match="--port"):
        Server(port=70000)


def test_a_port_in_use(server: Server) -> None:
    with pytest.raises(UserError, match="--port 0"):
        Server(server.port)


def test_a_bug_gives_an_answer_and_a_line(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("secret detail")

    monkeypatch.setattr(playground_server, "parse", broken)
    status, _, body = ask(server, "POST", "/api/check", {"scene": scene()})
    assert status == 500
    assert b"secret" not in body
    assert "KeyError" in caplog.text
    assert "Traceback" not in caplog.text


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tacit.cli import main

    def stopped(self: Server, poll_interval: float = 0.5) -> None:
        raise KeyboardInterrupt

    opened: list[str] = []
    monkeypatch.setattr(Server, "serve_forever", stopped)
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["playground", "--port", "0", "--no-open"]) == 0
    assert "http://127.0.0.1:" in capsys.readouterr().out
    assert opened == []
    assert main(["playground", "--port", "0"]) == 0
    assert len(opened) == 1
    assert main(["playground", "--port", "99999"]) == 2
