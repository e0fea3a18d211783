"""Near-duplicate removal for text corpora on Apache Spark, exact where it removes and the same on every run."""

from importlib import import_module
from typing import TYPE_CHECKING

from dedup.version import __version__

if TYPE_CHECKING:
    from dedup.api import deduplicate
    from dedup.errors import (
        AlertError,
        CapacityError,
        ComponentError,
        ConfigError,
        DataError,
        DedupError,
        FinishedError,
        SchemaError,
        StorageError,
    )
    from dedup.result import Report, Result
    from dedup.settings.files import load_config as load_settings
    from dedup.settings.options import Config as Settings
    from dedup.store.lookup import Match, lookup
    from dedup.stores import Store


__all__ = [
    "AlertError",
    "CapacityError",
    "ComponentError",
    "ConfigError",
    "DataError",
    "DedupError",
    "FinishedError",
    "Match",
    "Report",
    "Result",
    "SchemaError",
    "Settings",
    "StorageError",
    "Store",
    "__version__",
    "deduplicate",
    "load_settings",
    "lookup",
]

_ELSEWHERE = {
    "Match": ("dedup.store.lookup", "Match"),
    "Report": ("dedup.result", "Report"),
    "Result": ("dedup.result", "Result"),
    "Settings": ("dedup.settings.options", "Config"),
    "Store": ("dedup.stores", "Store"),
    "deduplicate": ("dedup.api", "deduplicate"),
    "load_settings": ("dedup.settings.files", "load_config"),
    "lookup": ("dedup.store.lookup", "lookup"),
}
"""Modules of the names in __all__ that are no errors; imported on demand."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _ELSEWHERE.get(name, ("dedup.errors", name))
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
