"""Steps that only inform, such as a plot or a drift: a run goes on without those that fail."""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dedup.display import hide_secrets, printable

LOG = logging.getLogger("dedup.informing")
LONGEST = 200
"""Most characters shown of a failure."""
LOSS, NEAR_MISSES, RECALL = "the estimate of pairs lost", "the near misses", "the recall of labelled pairs"
"""Names of the steps that every engine has."""
BASELINE, PLOTS, SOURCES, TEXTS = "the earlier batches", "the plots", "the survival by source", "the texts of examples"
SKETCH = "the sketch of the corpus"
Given = ParamSpec("Given")
Value = TypeVar("Value")


class Inform:
    """Runner of steps that only inform: a failing one is left out, and a line on stderr and in the report says so.

    Mistakes of the user are refused before it, and what writes the output is no such work.
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        """Causes of failure, by the names of the steps."""

    def __call__(
        self, name: str, work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs
    ) -> Value | None:
        """Return the result of the step; None if it fails.

        Parameters
        ----------
        name
            Part that the report then lacks, in words.
        """
        try:
            return work(*args, **kwargs)
        except Exception as error:
            # A fault of the JVM has pages.
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            cause = printable(hide_secrets(said))[:LONGEST]
            if self.left_out.setdefault(name, cause) is cause:
                LOG.warning("left out of the report: %s (%s)", name, cause)
            LOG.debug("%s", name, exc_info=True)
            return None
