"""The server and worker that the tests of orchestration share: they take a minute to start."""

import http.server
import json
import threading

import pytest

from tests.support.place import MARK, Place
from tests.support.prefect_server import wait_for


@pytest.fixture(scope="session")
def place(repository, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("orchestrated"), repository)

    class Webhook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            place.told.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    webhook = http.server.HTTPServer(("127.0.0.1", 0), Webhook)
    thread = threading.Thread(target=webhook.serve_forever)
    thread.start()
    try:
        place.notify = {"GMTS_NOTIFY": f"http://127.0.0.1:{webhook.server_port}/failures"}
        place.server.call(place.clone, "deploy", **place.notify)
        with place.server.worker(place.clone, **{MARK: place.mark}):
            yield place
        wait_for(lambda: not place.marked(), 60, "no process left of the worker's")
    finally:
        place.server.close()
        webhook.shutdown()
        webhook.server_close()
        thread.join()
