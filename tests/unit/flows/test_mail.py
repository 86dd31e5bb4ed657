"""A failure is told by mail: Prefect's block, and a mail server on loopback."""

import socketserver
import threading
from email import message_from_string

import pytest

from flows.automations import notifier


class MailServer(socketserver.ThreadingTCPServer):
    """Takes every mail and keeps it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Dialogue)
        self.mails = []


class Dialogue(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(f"{line}\r\n".encode())

    def line(self):
        return self.rfile.readline().decode().rstrip("\r\n")

    def handle(self):
        self.say("220 tests")
        while word := self.line()[:4].upper():
            if word == "DATA":
                self.say("354 go on")
                self.server.mails.append("\n".join(iter(self.line, ".")))
            self.say("221 bye" if word == "QUIT" else "250 done")


@pytest.fixture
def server():
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it
def test_a_mail_address_is_sent_the_subject_and_the_cause(server):
    host = f"127.0.0.1:{server.server_address[1]}"
    name, block = notifier(f"mailto://{host}?from=gmts@example.org&to=team@example.org")
    block.notify(subject="gmts: pipeline Failed", body="data.task must be ...")
    (mail,) = map(message_from_string, server.mails)
    assert (mail["Subject"], mail["To"]) == ("gmts: pipeline Failed", "team@example.org")
    assert "data.task must be ..." in mail.get_payload(0).get_payload()
    assert name.endswith("-mail")
