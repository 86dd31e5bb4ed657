"""What can be found wrong before any stage has run."""

from pathlib import Path

from gmts.config import ConfigError, Params
from gmts.imports import importable_from, load_function
from gmts.stages.benchmark import make_exam
from gmts.stages.workspace import Workspace


def check_model_folder(params: Params, root: Path) -> None:
    """See that model.path, where one is given, is a folder.

    Raises:
        ConfigError: If it is not.
    """
    path = params.model.path
    if path is not None and not (root / path).is_dir():
        raise ConfigError(
            f"model.path must be a folder with a Hugging Face causal LM, got {path}: there is no "
            "such folder, and stages download no model (they run with HF_HUB_OFFLINE=1): put it "
            "there first"
        )


def check_own_functions(params: Params, root: Path) -> None:
    """Import the functions that params.yaml names by path, and see that they can be called.

    Raises:
        ValueError: If one cannot be imported or takes other arguments; its key is named.
    """
    named = (
        ("data.custom", params.data.source == "custom", params.data.custom, 1),
        ("rewards.custom", params.rewards.scorer == "custom", params.rewards.custom, 3),
        ("selection.custom", params.selection.score == "custom", params.selection.custom, 2),
        *(
            (f"benchmarks.{name}.custom", True, config.custom, 3)
            for name, config in params.benchmarks.items()
        ),
    )
    with importable_from(root):
        for key, used, path, num_arguments in named:
            if used and path is not None:
                load_function(key, path, num_arguments)


def check_benchmarks(params: Params, root: Path) -> None:
    """Read the local files of benchmarks, long before their stages would.

    Raises:
        ConfigError: If the verdicts that one needs are not there.
        ValueError: If a file is missing, has a broken row or is not the pinned one.
    """
    for name, config in params.benchmarks.items():
        if config.path is not None:
            make_exam(params, Workspace(root), name)
