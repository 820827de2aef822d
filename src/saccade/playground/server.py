"""The playground on loopback, for convenience: the page's own files and nothing else.

What can be asked for is a fixed list of files, found when the server starts; a path is a key of
that list and is never turned into a place on disk. The server listens on 127.0.0.1 only, and
answers only those who call it by a loopback name: a foreign page that has its own name point here
(DNS rebinding) is refused by its Host header.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.resources.abc import Traversable

from saccade.errors import InputError, checked_count

_FOLDERS = {
    "/playground/": ("playground",),
    "/report/web/": ("report", "web"),
}  # as the page refers to them
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_FIRST = "/playground/index.html"
_USUAL_PORT = 8765
_HTTP_PORT = 80  # browsers leave it out of the Host header
_NAMES = ("127.0.0.1", "localhost")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def serve(port: int | None = None, open_browser: bool = True) -> None:
    """Serve until Ctrl-C, and open the page in the user's browser. Without a port: 8765, or any
    free one if that is taken.
    """
    with make_server(port) as server:
        address = f"http://127.0.0.1:{server.server_port}{_FIRST}"
        print(f"The playground is at {address} (Ctrl-C ends it).", flush=True)
        if open_browser:
            threading.Thread(
                target=webbrowser.open, args=(address,), daemon=True
            ).start()  # some browsers hold the caller
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def make_server(port: int | None = None) -> LoopbackServer:
    """A server that listens and does not serve yet; port 0 takes any free one."""
    wanted = [_USUAL_PORT, 0] if port is None else [checked_count("port", port, low=0, high=65535)]
    for number in wanted:
        with contextlib.suppress(OSError):
            return LoopbackServer(("127.0.0.1", number), _Handler)
    raise InputError(
        f"port {wanted[-1]} is taken or not allowed; choose another with `--port`, or leave it out."
    )


def served_files() -> dict[str, Traversable]:
    """Every path that is answered, with its file."""
    found: dict[str, Traversable] = {}
    for path, parts in _FOLDERS.items():
        folder = files("saccade").joinpath(*parts)
        if folder.is_dir():
            found |= {
                path + file.name: file
                for file in folder.iterdir()
                if _suffix(file.name) in _TYPES and file.is_file()
            }
    return found


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


class LoopbackServer(ThreadingHTTPServer):
    """Knows its files and the names it may be called by."""

    daemon_threads = True

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(
            self
        )  # HTTPServer's asks the network for this machine's name
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]
        self.files = served_files()
        self.hosts = {f"{name}:{self.server_port}" for name in _NAMES}
        if self.server_port == _HTTP_PORT:
            self.hosts |= set(_NAMES)


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    server_version, sys_version = "saccade", ""  # no versions for strangers
    error_message_format, error_content_type = "%(code)d %(message)s\n", "text/plain; charset=utf-8"
    timeout = 10  # seconds for a request and its answer: nobody may hold a thread for ever

    def handle(self) -> None:
        """Also whoever sends or takes a byte at a time is cut off in time; a connection that breaks
        is no error of ours.
        """
        end = threading.Timer(self.timeout, self._cut_off)
        end.daemon = True
        end.start()
        try:
            with contextlib.suppress(OSError):
                super().handle()
        finally:
            end.cancel()

    def _cut_off(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif path in ("/", "/playground", "/playground/"):
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", _FIRST)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path not in self.server.files:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            content = self.server.files[path].read_bytes()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{_TYPES[_suffix(path)]}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_body:
                self.wfile.write(content)

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is the user's."""
