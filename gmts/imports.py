"""Own functions named as `module:function` in params.yaml."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any


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
