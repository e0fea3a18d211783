"""Result of a run in Python: its tables and its report."""

import html
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self
from urllib.parse import quote

from dedup.display import hide_secrets, number

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Rows = TypeVar("Rows", default=Any)
else:
    from typing import TypeVar

    Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report of a run: its main numbers, and all of report.json by `to_dict`."""

    documents: int
    kept: int
    removed: int
    removal_rate: float
    """Share of the documents that were removed, from 0 to 1."""
    identical: int
    """Documents removed for the shingle set of the one kept."""
    near: int
    """Documents removed for their similarity."""
    components: int
    edges: int
    engine: str
    """Engine of the search: "spark" or "memory"."""
    alerts: int
    """Limits of [alerts] that were passed."""
    content: str = field(repr=False)
    """Contents of report.json."""

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Return the report of what `run.start` returns."""
        names = {entry.name for entry in fields(cls)} - {"alerts", "content"}
        numbers = {name: report[name] for name in names}
        return cls(**numbers, alerts=len(report["alerts"]), content=json.dumps(report))

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of report.json as a dictionary of the caller's own."""
        found: dict[str, Any] = json.loads(self.content)
        return found

    def _repr_html_(self) -> str:
        """Show the main numbers as a table in a notebook."""
        shown = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.repr}
        written = {name: value if isinstance(value, str) else number(value) for name, value in shown.items()}
        cells = "".join(
            f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>{html.escape(value)}</td></tr>"
            for name, value in written.items()
        )
        return f"<table>{cells}</table>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Result(Generic[Rows]):
    """Output of a run; its tables are read each time they are asked for.

    They are what the input was where it was rows, Spark DataFrames where a session was given, and Arrow datasets
    otherwise. With a temporary output they can be read as long as the result lives: keep it, not only its tables.
    """

    output: str
    """Folder of the output."""
    report: Report
    read: Callable[[str], Rows] = field(repr=False)
    """Function that opens a table by its name."""

    def _repr_html_(self) -> str:
        """Show the main numbers in a notebook, with a link to the page of the report."""
        table, page = self.report._repr_html_(), f"{self.output}/report.html"
        if "://" in page:
            return f"{table}<p>{html.escape(hide_secrets(page))}</p>"
        near = os.path.relpath(page)
        # A notebook opens what lies below its own folder; all else only the browser itself does.
        link = Path(page).absolute().as_uri() if near.startswith(os.pardir) else quote(near)
        return f'{table}<p><a href="{html.escape(link)}" target="_blank">report</a></p>'

    @property
    def kept(self) -> Rows:
        """Kept rows of the input; with `output.mode` "ids" their ids, `StorageError` with "weights"."""
        return self.read("kept")

    @property
    def removed(self) -> Rows:
        """Removed rows of the input; `StorageError` with `output.mode` "ids" and "weights", which write none."""
        return self.read("removed")

    @property
    def weights(self) -> Rows:
        """Weight of each row with `output.mode` "weights": id, representative_id, documents, sources, weight."""
        return self.read("weights")

    @property
    def duplicates(self) -> Rows:
        """Reason for each removed row: id, layer, kind, representative_id, component_id, jaccard."""
        return self.read("duplicates")

    @property
    def edges(self) -> Rows:
        """Pairs at or above the threshold: left_id, right_id, jaccard, in the user's ids."""
        return self.read("edges")

    @property
    def near_misses(self) -> Rows:
        """Pairs a little below the threshold, with the columns of `edges`."""
        return self.read("near_misses")

    @property
    def cosines(self) -> Rows:
        """Pairs of the layer `semantic`: left_id, right_id, kind, cosine; `StorageError` without such a layer."""
        return self.read("cosines")

    @property
    def changes(self) -> Rows:
        """Documents of earlier batches of the store that have another lot now, or would have after a new election."""
        return self.read("changes")

    @property
    def spans(self) -> Rows:
        """Spans that layers cut out of texts, or marked, as in OUT/spans; `StorageError` where no layer did."""
        return self.read("spans")
