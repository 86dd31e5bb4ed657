"""Own functions named as `module:function` in params.yaml."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def importable_from(root: Path) -> Iterator[None]:
    """Let modules in `root` be found: stages run in the clone's root, so own modules are there."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


def load_function(key: str, path: str, num_arguments: int) -> Callable[..., Any]:
    """Return the function that `path` names.

    Args:
        key: The parameter that names it, for errors.
        path: `module:function`.
        num_arguments: Positional arguments that it will be called with.

    Raises:
        ValueError: If the module cannot be imported, has no such function, or the function cannot
            take that many positional arguments; the message names `key`.
    """
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{key} must name an importable module, got {path!r}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        found = "nothing of that name" if function is None else type(function).__name__
        raise ValueError(f"{key} must name a function of {module_name}, got {path!r}: {found}")
    try:
        inspect.signature(function).bind(*[None] * num_arguments)
    except TypeError as error:
        raise ValueError(
            f"{key} must take {num_arguments} positional arguments, got {path!r}: {error}"
        ) from error
    loaded: Callable[..., Any] = function
    return loaded
