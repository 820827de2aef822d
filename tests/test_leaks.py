"""The tests' own guard: what is left open is named, what is closed is not."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

from tests.leaks import child_processes, collected, open_descriptors


def test_a_socket_and_an_event_loop_that_are_open_are_seen_until_they_are_closed():
    before = open_descriptors()
    connection, loop = socket.socket(), asyncio.new_event_loop()
    left = open_descriptors().keys() - before.keys()
    connection.close()
    loop.close()
    assert any("socket:" in one for one in left)
    assert any("eventpoll" in one for one in left)
    assert open_descriptors().keys() <= before.keys()


def test_a_socket_that_nobody_holds_is_named_by_the_collection():
    assert collected() == []
    circle = [socket.socket()]
    circle.append(circle)
    address = repr(circle[0])
    del circle
    (warning,) = collected()
    assert address in warning


def test_a_child_process_is_seen_until_it_has_ended():
    before = child_processes()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child_processes().keys() - before.keys() == {f"process {child.pid}"}
    assert child_processes().keys() <= before.keys()
