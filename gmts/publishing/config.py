"""Parameters of publishing (`publish:` in params.yaml)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typing_extensions import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishConfig:
    """Which checkpoint is published, and where to."""

    checkpoint: Annotated[
        Literal["last", "best"],
        Doc("last: after the final step; best: the highest validation score."),
    ]
    license: Annotated[str, Doc("SPDX identifier for the model card.")]
    hub_repo: Annotated[
        str | None, Doc("Hub repository to upload to as well; null: local folder only.")
    ]
    hub_private: Annotated[bool, Doc("Create the Hub repository as private.")]
