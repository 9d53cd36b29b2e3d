"""asciinema's own player in a headless Chromium: tests whether a file plays, and returns its last frame.

The player is asciinema's package for npm, pinned and fetched once into the cache of `wine.parts`, which has an npm for
machines without npm; ``python -m tests.player`` only fetches the player. Chromium is the system's.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from .wine.parts import Part, fetch_npm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

assert sys.platform != "win32"  # on other systems mypy skips the code below

PLAYER = Part(
    "asciinema-player", "3.17.0", "d03ef67fc2f32a7aa5177c0b64650c7c8fd234ef2d3e4b34886632bb3dd58c5c"
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

SECONDS = 45
"""Seconds in which a recording of a few seconds must have been played, many times as fast."""

_FILES = ("asciinema-player.min.js", "asciinema-player.css")

_PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="stylesheet" href="asciinema-player.css">
<div id="player"></div>
<script>
const said = [];
const tell = (level) => (...words) => said.push(level + ": " + words.map(String).join(" "));
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("unhandledrejection", (event) => said.push("error: " + event.reason));
</script>
<script src="asciinema-player.min.js"></script>
<script>
const quiet = () => {};
const logger = {log: quiet, debug: quiet, info: quiet, warn: tell("warning"), error: tell("error")};
const place = document.getElementById("player");
const player = AsciinemaPlayer.create("recording.cast", place, {
  autoPlay: true, speed: 50, fit: false, controls: false, logger,
});
let told = false;
const report = async (end) => {
  if (told) return;
  told = true;
  const failed = place.querySelector(".ap-overlay-error") !== null;
  const rows = [...place.querySelectorAll(".ap-term-text .ap-line")];
  const runs = [...place.querySelectorAll(".ap-term-text .ap-line span")].filter((run) => run.children.length === 0);
  await fetch("/report", {method: "POST", body: JSON.stringify({
    end, failed, said,
    rows: rows.map((row) => row.textContent),
    runs: runs.map((run) => [run.textContent, getComputedStyle(run).color]),
    duration: failed ? null : await player.getDuration(),
  })});
};
const settle = (end) => requestAnimationFrame(() => requestAnimationFrame(() => report(end)));
player.addEventListener("ended", () => settle("ended"));
setInterval(() => {
  if (said.length > 0 || place.querySelector(".ap-overlay-error") !== null) settle("failed");
}, 50);
</script>
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """The display of the player at the end of a recording.

    Attributes:
        end: Whether the recording ended, or failed.
        failed: Whether the player shows that it cannot play the recording.
        said: The warnings of the player and the browser.
        rows: The text of each row.
        runs: Texts of one style, each with its colour.
        duration: The length of the recording, in seconds.
    """

    end: str
    failed: bool
    said: list[str]
    rows: list[str]
    runs: list[list[str]]
    duration: float | None


def set_up(directory: Path) -> None:
    """Put the player into a directory.

    Raises:
        MissingPartError: The player cannot be fetched.
    """
    with tarfile.open(fetch_npm(PLAYER)) as archive:
        for name in _FILES:
            content = archive.extractfile(f"package/dist/bundle/{name}")
            assert content is not None
            (directory / name).write_bytes(content.read())
    (directory / "index.html").write_text(_PAGE)


def play(directory: Path, recording: bytes) -> Frame:
    """Play a recording to its end, in the directory from `set_up`."""
    assert CHROMIUM is not None
    (directory / "recording.cast").write_bytes(recording)
    with _serving(directory) as (address, reports), _browsing(address, directory / "profile"):
        return Frame(**json.loads(reports.get(timeout=SECONDS)))


@contextlib.contextmanager
def _serving(directory: Path) -> Iterator[tuple[str, queue.Queue[bytes]]]:
    reports: queue.Queue[bytes] = queue.Queue()

    class Handler(SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            reports.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", reports
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def _browsing(address: str, profile: Path) -> Iterator[None]:
    assert CHROMIUM is not None
    profile.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--no-proxy-server", "--disable-background-networking"),
            *(f"--user-data-dir={profile}", "--window-size=1200,800", "--remote-debugging-port=0", address),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    fetch_npm(PLAYER)
