"""The one reader of params.yaml: strict, complete, and free of torch."""

from gmts.config.errors import ConfigError
from gmts.config.load import load_params, params_hash, parse_params
from gmts.config.schema import SCHEMA_VERSION, STAGE_SECTIONS, Params

__all__ = [
    "SCHEMA_VERSION",
    "STAGE_SECTIONS",
    "ConfigError",
    "Params",
    "load_params",
    "params_hash",
    "parse_params",
]
