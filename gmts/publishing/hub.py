"""Uploading a published folder to a Hub repository, on request only."""

from pathlib import Path

from huggingface_hub import HfApi, constants


def upload(folder: Path, *, repo: str, private: bool) -> str:
    """Upload `folder` to the model repository `repo` and return the commit's address.

    Raises:
        ValueError: If the environment forbids network access (HF_HUB_OFFLINE).
    """
    if constants.HF_HUB_OFFLINE:
        raise ValueError(
            f"publish.hub_repo must be null while HF_HUB_OFFLINE is set, got {repo!r}: "
            "set HF_HUB_OFFLINE=0 to allow the upload"
        )
    api = HfApi()
    api.create_repo(repo, private=private, exist_ok=True)
    return str(api.upload_folder(repo_id=repo, folder_path=folder).commit_url)
