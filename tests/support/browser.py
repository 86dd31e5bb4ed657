"""A headless Chromium that can reach nothing but loopback, driven over its debugging protocol."""

import base64
import json
import shutil
import subprocess
import urllib.parse
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.support.prefect_server import wait_for


class Page:
    """One tab."""

    def __init__(self, connection) -> None:
        self._connection = connection
        self._number = 0

    def call(self, method: str, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(timeout=60))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def evaluate(self, expression: str):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, url: str, *wanted: str) -> str:
        """Go to a page, wait until it shows every text in `wanted`, and return its text."""
        self.call("Page.navigate", url=url)
        return self.shows(*wanted)

    def text(self) -> str:
        return self.evaluate("document.body ? document.body.innerText : ''")

    def shows(self, *wanted: str) -> str:
        def found():
            text = self.text()
            return text if all(part in text for part in wanted) else None

        try:
            return wait_for(found, 60, f"{wanted} on the page")
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{self.text()}") from None

    def click(self, text: str, *wanted: str) -> str:
        """Click the innermost element of exactly this text; then as `open`."""
        script = (
            "(() => { const found = [...document.querySelectorAll('body *')].filter(e => "
            f"e.children.length === 0 && e.textContent.trim() === {json.dumps(text)} && "
            "e.offsetParent); if (found.length) found[0].click(); return found.length; })()"
        )
        wait_for(lambda: self.evaluate(script), 30, f"{text!r} to click on in:\n{self.text()}")
        return self.shows(*wanted)

    def loaded_images(self) -> int:
        """Return the number of images in the page that were given as data and have a size."""
        return self.evaluate(
            "[...document.images].filter(i => i.src.startsWith('data:image/png') && "
            "i.naturalWidth > 0).length"
        )

    def screenshot(self, file: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder: Path):
    """Yield a page; `folder` takes the browser's profile. Skips where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (.ci/setup installs it)")
    port_file = folder / "DevToolsActivePort"
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0",
        "--remote-allow-origins=*", f"--user-data-dir={folder}", "--window-size=1400,1300",
        "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: port_file.exists() and "\n" in port_file.read_text(), 60, "Chromium")
        port, path = port_file.read_text().split("\n")
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as root:
            target = Page(root).call("Target.createTarget", url="about:blank")["targetId"]
            url = f"ws://127.0.0.1:{port}/devtools/page/{urllib.parse.quote(target)}"
            with connect(url, max_size=None) as connection:
                page = Page(connection)
                page.call("Page.enable")
                yield page
    finally:
        process.terminate()
        process.wait(20)
