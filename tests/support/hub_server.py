"""A server on the loopback that answers what the Hub answers for one data set."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class HubRepo:
    """A data set at one commit."""

    name: str
    commit: str
    files: dict[str, bytes]
    """What the commit holds; names ending in .parquet are stored as LFS."""
    served: dict[str, bytes] = field(default_factory=dict)
    """Bytes served in place of those of the commit."""
    answered_commit: str | None = None
    """The commit that the server says it answers with, if another."""
    requests: list[str] = field(default_factory=list)

    def listing(self) -> dict[str, object]:
        """Return the answer to a request for the revision."""
        return {
            "id": self.name,
            "sha": self.answered_commit or self.commit,
            "private": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [self._sibling(name) for name in self.files],
        }

    def _sibling(self, name: str) -> dict[str, object]:
        content = self.files[name]
        sibling: dict[str, object] = {
            "rfilename": name,
            "size": len(content),
            "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
        }
        if name.endswith(".parquet"):
            sha256 = hashlib.sha256(content).hexdigest()
            sibling["blobId"] = "0" * 40  # of the pointer file
            sibling["lfs"] = {"size": len(content), "sha256": sha256, "pointerSize": 130}
        return sibling


@contextmanager
def serve_hub(repo: HubRepo) -> Iterator[str]:
    """Yield the address of a server that has `repo`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self._answer(with_body=True)

        def do_HEAD(self):
            self._answer(with_body=False)

        def _answer(self, *, with_body):
            path = unquote(urlsplit(self.path).path)
            repo.requests.append(f"{self.command} {path}")
            status, headers, body = respond(repo, path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def respond(repo: HubRepo, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the answer to a path."""
    api, resolve = f"/api/datasets/{repo.name}", f"/datasets/{repo.name}/resolve/"
    if not path.startswith((api, resolve)):
        return 404, {"X-Error-Code": "RepoNotFound"}, b""
    if path == f"{api}/revision/{repo.commit}":
        body = json.dumps(repo.listing()).encode()
        return 200, {"Content-Type": "application/json"}, body
    revision, _, name = path.removeprefix(resolve).partition("/")
    if path.startswith(api) or revision != repo.commit:
        return 404, {"X-Error-Code": "RevisionNotFound"}, b""
    if name not in repo.files:
        return 404, {"X-Error-Code": "EntryNotFound"}, b""
    body = repo.served.get(name, repo.files[name])
    etag = hashlib.sha256(repo.files[name]).hexdigest()
    return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": repo.commit}, body
