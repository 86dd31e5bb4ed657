"""Files and models outside the pipeline that a stage has read, and whether they still are the same.

They are named in params.yaml, so dvc.yaml cannot list them as dependencies; what the stages wrote
holds their hashes instead.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from gmts.files import file_sha256, read_json
from gmts.models.identity import settings_sha256, weights_sha256
from gmts.models.initial import INITIAL, read_initial
from gmts.stages.workspace import Workspace


def changed_inputs(root: Path, stage: str) -> list[str]:
    """Return what changed outside the pipeline since `stage` ran, as params.yaml names it.

    Empty for a stage that reads nothing else, or has not run: it is due anyway. What is gone counts
    as changed, and the stage then says what it misses.

    Args:
        root: The clone; relative names are relative to it.
        stage: A stage of dvc.yaml, or one of its items: benchmark@math500.

    Raises:
        ValueError: If the manifest of data/prepared or a score is not valid JSON.
    """
    kind, _, item = stage.partition("@")
    changed = _CHANGED.get(kind)
    return [] if changed is None else changed(Workspace(root), item or "*")


def _of_prepare(workspace: Workspace, item: str) -> list[str]:
    """Local files of data and of benchmarks, and the tokenizer of model.path."""
    del item
    manifest = workspace.prepared_dir / "manifest.json"
    if not manifest.is_file():
        return []
    tree, root = read_json(manifest), workspace.root
    names = _changed_files(tree.get("files", {}), root)
    for found in tree.get("benchmarks", {}).values():
        if found["hub"] is None:
            names += _changed_files(found["files"], root)
    model = tree.get("model")
    if model is not None and not _is(
        settings_sha256, root / model["path"], model["settings_sha256"]
    ):
        names.append(model["path"])
    return names


def _of_warmstart(workspace: Workspace, item: str) -> list[str]:
    """The weights and settings of model.path."""
    del item
    if not (workspace.initial_dir / INITIAL).is_file():
        return []
    try:
        initial = read_initial(workspace.initial_dir)
    except ValueError:  # of another version of gmts, or broken: to be made again
        return [_name(workspace.initial_dir.resolve(), workspace.root)]
    same = initial.built or (
        _is(settings_sha256, initial.path, initial.settings_sha256)
        and _is(weights_sha256, initial.path, initial.weights_sha256)
    )
    return [] if same else [_name(initial.path, workspace.root)]


def _of_benchmark(workspace: Workspace, item: str) -> list[str]:
    """The local files of benchmarks."""
    found = [
        name
        for file in sorted(workspace.benchmarks_dir.glob(f"{item}/*/scores.json"))
        for name in _changed_files(read_json(file)["data"]["local"], workspace.root)
    ]
    return list(dict.fromkeys(found))


def _changed_files(files: Mapping[str, str], root: Path) -> list[str]:
    """Return the names of those that are gone or have another hash than is recorded."""
    return [
        name
        for name, sha256 in files.items()
        if not (root / name).is_file() or file_sha256(root / name) != sha256
    ]


def _is(sha256_of: Callable[[Path], str], folder: Path, expected: str) -> bool:
    try:
        return sha256_of(folder) == expected
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def _name(path: Path, root: Path) -> str:
    inside = path.is_relative_to(root.resolve())
    return str(path.relative_to(root.resolve()) if inside else path)


_CHANGED: dict[str, Callable[[Workspace, str], list[str]]] = {
    "prepare": _of_prepare,
    "warmstart": _of_warmstart,
    "benchmark": _of_benchmark,
}
