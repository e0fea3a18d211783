"""Layers: a class of `dedup.layers.layer.Layer` in a module of its own and a line here are all that a new one takes."""

from importlib import import_module
from typing import Any

from dedup.settings.rules import Table

NEAR = "near"
LAYERS: dict[str, str] = {
    "url": "dedup.layers.url:UrlLayer",
    "exact": "dedup.layers.exact:ExactLayer",
    "lines": "dedup.layers.lines:LinesLayer",
    NEAR: "dedup.layers.near.layer:NearLayer",
    "semantic": "dedup.layers.semantic.semantic:SemanticLayer",
    "containment": "dedup.layers.containment:ContainmentLayer",
    "contamination": "dedup.layers.contamination:ContaminationLayer",
    "passages": "dedup.layers.passages:PassagesLayer",
}
"""Class of each layer by its name, in the order of most pipelines, after its module, which is imported when it or its
settings are asked for: a command line of another one need not wait for it."""


def load_layer(name: str) -> Any:  # noqa: ANN401 - a class of Layer, which knows the settings, as these know this module
    """Return the class of the layer of a name in LAYERS."""
    module, _, kind = LAYERS[name].partition(":")
    return getattr(import_module(module), kind)


def load_table(name: str) -> type[Table] | None:
    """Return the settings of a layer; None of one without any of its own, and of a name that no layer has."""
    found: type[Table] | None = load_layer(name).table if name in LAYERS else None
    return found
