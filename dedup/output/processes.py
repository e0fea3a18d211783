"""Files that processes of this machine write: see `dedup.output.file_output.FileOutput`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.engine.memory import MemoryEngine
from dedup.files.formats.format import FileCounts
from dedup.files.splits import Split
from dedup.files.storage import Storage
from dedup.kernels.runs.bounds import find_bounds
from dedup.output.file_output import FileOutput, Handed, Unit, WriteUnit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryOutput(FileOutput[pa.Table]):
    """Files that workers of the memory engine write."""

    engine: MemoryEngine

    @property
    def splits(self) -> Sequence[Split]:
        """See `FileOutput.splits`."""
        return self.engine.splits

    def save(self, name: str, rows: pa.Table, /) -> int:
        """Write a folder of one file."""
        with Storage().create(f"{self.folder}/{name}/part-00000.parquet") as stream:
            # Without what the engine has counted, nor that it holds texts as large strings, which tasks do not.
            pq.write_table(rows.replace_schema_metadata(), stream, compression="zstd", store_schema=False)
        count: int = rows.num_rows
        return count

    def list_rejected(self) -> pa.Table | None:
        """See `FileOutput.list_rejected`."""
        rejected = self.engine.known.rejected
        if not rejected:
            return None
        columns = ("file", "reason", "record", "row")
        return pa.Table.from_pylist(
            [
                {"split": split, "number": number} | {name: getattr(each, name) for name in columns}
                for split, number, each in rejected
            ]
        )

    def write_units(self, edits: pa.Table, units: Sequence[Unit], work: WriteUnit) -> Mapping[int, FileCounts]:
        """See `FileOutput.write_units`."""
        edits = edits.combine_chunks()
        numbers = edits["unit"].to_numpy()
        order = np.lexsort((edits["row"].to_numpy(), numbers))
        bounds = find_bounds(numbers[order]).tolist()
        of_unit = {int(numbers[order[begin]]): order[begin:end] for begin, end in pairwise(bounds)}
        none, splits = edits.schema.empty_table(), self.engine.splits
        # The largest first, so that no core is left with one at the end.
        handed = [
            Handed(
                number,
                [splits[split] for split in units[number].splits],
                # Not sliced, since a slice goes to other processes with all that it is cut from.
                edits.take(pa.array(of_unit[number])) if number in of_unit else none,
            )
            for number in sorted(range(len(units)), key=lambda number: -units[number].size)
        ]
        written = self.engine.workers.map(work, handed)
        return {each.number: done for each, done in zip(handed, written, strict=True)}
