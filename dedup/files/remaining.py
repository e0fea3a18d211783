"""Rows and texts that earlier layers have left in files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from dedup.files.delete_spans import Cuts, delete_from_texts
from dedup.files.formats.format import Rows
from dedup.files.profile_filter import ProfileFilter
from dedup.files.source import FileSource, Piece
from dedup.files.splits import Split
from dedup.kernels.runs.bounds import find_bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remaining:
    """Remaining rows and texts of some files, by file number; other files remain whole."""

    removed: Mapping[int, Rows] = field(default_factory=dict)
    """Removed rows; int64, ascending."""
    cuts: Mapping[int, Cuts] = field(default_factory=dict)
    profile: ProfileFilter | None = None
    """Profile whose documents remain; None for all."""

    @classmethod
    def of(
        cls,
        removed: tuple[Rows, Rows],
        spans: tuple[Rows, Rows, Rows, Rows],
        profile: ProfileFilter | None = None,
    ) -> Self:
        """Make it of removed rows, by file and row, and of spans, by file, row, begin and end."""
        order = np.lexsort(removed[::-1])
        files, rows = (each[order] for each in removed)
        bounds = pairwise(find_bounds(files).tolist())
        order = np.lexsort((spans[1], spans[0]))
        of, *columns = (each[order] for each in spans)
        return cls(
            removed={int(files[begin]): rows[begin:end] for begin, end in bounds},
            cuts={
                int(of[begin]): Cuts.of(*(column[begin:end] for column in columns))
                for begin, end in pairwise(find_bounds(of).tolist())
            },
            profile=profile,
        )

    def select(self, files: Sequence[int]) -> "Remaining":
        """Return the part for some files."""
        return Remaining(
            removed={file: self.removed[file] for file in files if file in self.removed},
            cuts={file: self.cuts[file] for file in files if file in self.cuts},
            profile=self.profile,
        )

    def read(self, source: FileSource, split: Split, rows: Mapping[int, Rows] | None = None) -> Iterator[Piece]:
        """Read the documents of a split that remain; see `FileSource.read`."""
        for piece in source.read(split, rows):
            yield self.apply(piece)

    def apply(self, piece: Piece) -> Piece:
        """Return a piece without the removed rows and spans."""
        batch = piece.batch
        if self.profile is not None:
            batch = self.profile.apply(batch)
        if piece.file in self.removed and batch.num_rows:
            rows, gone = batch["row"].to_numpy(), self.removed[piece.file]
            begin, end = np.searchsorted(gone, [rows[0], rows[-1] + 1])
            is_gone = np.isin(rows, gone[begin:end])
            if is_gone.any():
                batch = batch.filter(pa.array(~is_gone))
        if piece.file in self.cuts and batch.num_rows:
            cuts = self.cuts[piece.file]
            rows = batch["row"].to_numpy()
            begin, end = np.searchsorted(cuts.rows, rows[0]), np.searchsorted(cuts.rows, rows[-1], side="right")
            here = Cuts(*(column[begin:end] for column in cuts)).by_row()
            place = batch.schema.get_field_index("text")
            batch = batch.set_column(place, "text", delete_from_texts(batch["text"], rows, here))
        return replace(piece, batch=batch)
