"""The loopback server: which files it gives, to whom, and what it refuses."""

from __future__ import annotations

import http.client
import socket
import threading
import time

import pytest

from saccade.errors import InputError
from saccade.playground import server as server_module
from saccade.playground.server import make_server, served_files
from tests.patience import ANSWER


@pytest.fixture(scope="module")
def server():
    with make_server(0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def asked(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=ANSWER)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{server.server_port}"} | headers)
    answer = connection.getresponse()
    return answer, answer.read()


def test_it_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_the_engine_is_served_as_it_stands_on_disk(server):
    for name, content_type in (
        ("scan_and_snap.js", "text/javascript"),
        ("integrate.js", "text/javascript"),
    ):
        answer, body = asked(server, f"/playground/{name}")
        assert answer.status == 200
        assert answer.getheader("Content-Type") == f"{content_type}; charset=utf-8"
        assert body == served_files()[f"/playground/{name}"].read_bytes()


def test_the_root_leads_to_the_page_and_a_query_changes_nothing(server):
    answer, _ = asked(server, "/")
    assert (answer.status, answer.getheader("Location")) == (302, "/playground/index.html")
    assert asked(server, "/playground/integrate.js?v=1")[0].status == 200


def test_the_served_page_runs_under_the_servers_policy(server, browser):
    errors, asked_for = [], []
    page = browser.new_page()
    page.on(
        "console",
        lambda message: message.type in ("error", "warning") and errors.append(message.text),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked_for.append(request.url))
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    assert (
        page.evaluate("ScanAndSnap.create({ tokenProb: [[0.5, 0.5]] }).observe().attention[0][1]")
        == 0.5
    )
    page.close()
    assert errors == []
    assert {url.split("/")[2] for url in asked_for if url.startswith("http")} == {
        f"127.0.0.1:{server.server_port}"
    }


def test_head_gives_the_headers_without_the_file(server):
    answer, body = asked(server, "/playground/integrate.js", "HEAD")
    assert answer.status == 200
    assert int(answer.getheader("Content-Length")) > 1000
    assert body == b""


@pytest.mark.parametrize(
    "path",
    [
        "/playground/server.py",
        "/playground/../cli.py",
        "/playground/%2e%2e/cli.py",
        "/playground/..%2fcli.py",
        "/../../etc/passwd",
        "//etc/passwd",
        "/playground/__init__.py",
        "/report/page.py",
        "/report/web/../page.py",
        "/playground/integrate.js/",
        "/playground/integrate.js%00.html",
        "http://elsewhere/playground/integrate.js",
        "/report/web/",
        "/PLAYGROUND/integrate.js",
    ],
)
def test_nothing_outside_the_list_is_given(server, path):
    answer, body = asked(server, path)
    assert answer.status == 404
    assert len(body) < 100


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1.evil.example:{port}",
        "127.0.0.1:1",
        "[::1]:{port}",
        "",
    ],
)
def test_a_foreign_host_name_is_refused(server, host):
    answer, body = asked(
        server, "/playground/integrate.js", Host=host.format(port=server.server_port)
    )
    assert answer.status == 421
    assert b"Integrate" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_loopback_names_are_answered(server, host):
    assert (
        asked(server, "/playground/integrate.js", Host=f"{host}:{server.server_port}")[0].status
        == 200
    )


def test_no_host_or_two_of_them_are_refused(server):
    for hosts in (b"", f"Host: localhost:{server.server_port}\r\nHost: evil.example\r\n".encode()):
        with socket.create_connection(
            ("127.0.0.1", server.server_port), timeout=ANSWER
        ) as connection:
            connection.sendall(
                b"GET /playground/integrate.js HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"
            )
            assert b" 421 " in connection.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_head_are_answered(server, method):
    assert asked(server, "/playground/integrate.js", method)[0].status == 405


@pytest.mark.parametrize("path", ["/playground/integrate.js", "/", "/missing"])
def test_every_answer_carries_the_security_headers(server, path):
    answer, _ = asked(server, path)
    policy = answer.getheader("Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert "Python" not in answer.getheader("Server")


def test_a_port_that_is_taken_is_a_sentence_and_the_usual_one_gives_way(server):
    with pytest.raises(InputError, match=f"port {server.server_port} is taken or not allowed"):
        make_server(server.server_port)
    with make_server() as first, make_server() as second:
        assert first.server_port != second.server_port


@pytest.mark.parametrize("port", [-1, 65536, 1.5, "8000", True])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match="`port` must be a whole number"):
        make_server(port)


def cut_off(slow, seconds):
    """Whether the server ends a connection that sends a byte at a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            slow.sendall(b"G")
            if not slow.recv(1):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_a_request_that_comes_a_byte_at_a_time_is_cut_off(server, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        patch.setattr(server_module._Handler, "timeout", 1.0)
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=0.1) as slow:
            assert cut_off(slow, seconds=ANSWER)
    assert asked(server, "/playground/integrate.js")[0].status == 200
    assert capfd.readouterr().err == ""
