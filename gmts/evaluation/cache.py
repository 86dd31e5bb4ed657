"""Sampled responses on disk, so that an interrupted evaluation goes on where it stopped.

lm-eval's own cache leaves sampled requests out. A cached chunk belongs to one set of weights, one
template and one way of sampling; other weights at the same path are another set.
"""

import gzip
import json
import logging
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from gmts.files import text_sha256, write_atomic

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A sampled response as text."""

    text: str
    num_tokens: int
    finished: bool
    """False: cut at the length limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingIdentity:
    """Everything that decides which responses are sampled to a prompt, prompts aside."""

    weights_sha256: str
    config_sha256: str
    """Of the model's and the tokenizer's files, weights left out."""
    template_sha256: str
    code_sha256: str
    """Of the sampler."""
    versions: str
    """Of torch and transformers."""
    dtype: str
    device: str
    threads: int
    batch_size: int
    temperature: float
    max_response_tokens: int
    samples: int
    seed: int

    def sha256(self) -> str:
        """Return one hash over all fields."""
        return text_sha256(json.dumps(asdict(self), sort_keys=True))


class SampleCache:
    """Chunks of responses, one file each."""

    def __init__(self, folder: Path, identity: SamplingIdentity) -> None:
        self._folder = folder / identity.sha256()

    def read(self, chunk: str) -> list[list[Response]] | None:
        """Return the responses of a chunk, one list per prompt; None if they are not there.

        A damaged file counts as not there: its responses can be sampled again.
        """
        path = self._path(chunk)
        if not path.is_file():
            return None
        try:
            stored = json.loads(gzip.decompress(path.read_bytes()))
            return [[Response(**response) for response in group] for group in stored]
        except (OSError, EOFError, zlib.error, ValueError, TypeError) as error:
            logger.warning("%s cannot be read, so its responses are sampled again: %s", path, error)
            return None

    def write(self, chunk: str, responses: list[list[Response]]) -> None:
        """Store the responses of a chunk, atomically."""
        text = json.dumps([[asdict(response) for response in group] for group in responses])
        write_atomic(self._path(chunk), gzip.compress(text.encode(), mtime=0))

    def _path(self, chunk: str) -> Path:
        return self._folder / f"{chunk}.json.gz"
