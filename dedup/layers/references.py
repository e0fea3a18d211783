"""Files that layers read besides the input."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dedup.errors import DataError, SchemaError, StorageError
from dedup.files.listing import Listing, list_files


class Reference(NamedTuple):
    """Files of one entry of a setting."""

    setting: str
    name: str
    """Name of the entry, of which messages speak."""
    path: str
    """File, glob or folder."""

    def list_files(self) -> Listing:
        """List the files; their fingerprint changes when one does.

        Raises
        ------
        StorageError
            When there is none, or their names do not tell one format.
        """
        with self.name_errors():
            return list_files([self.path])

    @contextmanager
    def name_errors(self) -> Iterator[None]:
        """Let errors of readers name the entry where they name the input, without advice that helps only there."""
        try:
            yield
        except (StorageError, SchemaError, DataError) as error:
            said = re.sub(r"^(--input:?|input\.text_column:) ", "", str(error).partition("; ")[0])
            raise type(error)(f"{self.setting}: {self.name}: {said.replace('the input', 'the set')}") from error
