"""ORC, in stripes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import orc

from dedup.files.formats.columnar import ColumnarFile, ColumnarFormat
from dedup.files.formats.format import InputFile, Write
from dedup.files.storage import OutputFile


class OrcFormat(ColumnarFormat):
    """Files of ORC."""

    extensions = ("orc",)
    dataset = "orc"

    def open(self, stream: pa.NativeFile, file: InputFile) -> "OrcFile":
        """See `ColumnarFormat.open`."""
        return OrcFile(stream)


class OrcFile(ColumnarFile):
    """Stripes of an ORC file."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._file = orc.ORCFile(stream)
        self.schema = self._file.schema
        self.unit_count = self._file.nstripes

    def count_rows(self) -> list[int]:
        """See `ColumnarFile.count_rows`."""
        # Asked for no column, pyarrow answers with no row.
        first = self.schema.names[:1]
        return [self._file.read_stripe(unit, columns=first).num_rows for unit in range(self.unit_count)]

    def read(
        self, units: Sequence[int], columns: Sequence[str] | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `ColumnarFile.read`."""
        for unit in units:
            yield self._file.read_stripe(unit, columns=None if columns is None else list(columns))

    @contextmanager
    def write_like(self, stream: OutputFile, schema: pa.Schema) -> Iterator[Write]:
        """See `ColumnarFile.write_like`."""
        with orc.ORCWriter(
            stream,
            compression=self._file.compression.lower(),
            compression_block_size=self._file.compression_size or 1 << 16,
            file_version=self._file.file_version,
            row_index_stride=self._file.row_index_stride,
        ) as stripes:
            # A file without a row has no schema unless an empty table is written.
            stripes.write(schema.empty_table())
            yield stripes.write
