"""The Python interface of a corpus that grows, which is the command line's too."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from dedup.api import Location, deduplicate, load_given
from dedup.errors import ConfigError, DataError, StorageError
from dedup.files.storage import Storage
from dedup.result import Result
from dedup.run.lock import Lock
from dedup.settings.contract import read_key
from dedup.settings.options import Config
from dedup.settings.rules import Range, refuse_single
from dedup.store import upkeep
from dedup.store.admission import Admission, Request, Verdict
from dedup.store.admitted import take_admitted, take_beside
from dedup.store.deleting import Deleted, delete_ids, find_where
from dedup.store.journal import FOLDER, list_segments
from dedup.store.lookup import Match, View
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import Commit, Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dedup.keywords import BatchOptions, Keywords
    from dedup.run.migrating import Migrated

HOURS = Range(0)


@dataclass(frozen=True, slots=True)
class Store:
    """The documents of all batches that were added to a folder, as far as comparing others with them takes.

    Each call sees the store as it is then, and several processes may write to it. docs/growing.md says what holds.

    Parameters
    ----------
    path
        Folder or URL, which the first batch makes.
    key_file
        Path of the key of its hashes, where look-ups need another than the store was made with.

    Examples
    --------
    >>> words = "the quick brown fox jumps over the lazy dog and runs far away from here until night falls"
    >>> store = Store(f"{folder}/corpus.store")
    >>> store.add([{"id": 1, "text": words}], "october", id_column="id").report.kept
    1
    >>> november = store.add([{"id": 2, "text": words}, {"id": 3, "text": "another text"}], "november", id_column="id")
    >>> [row["id"] for row in november.kept], november.duplicates[0]["representative_id"]
    ([3], 1)
    >>> store.lookup(["Another text!"])
    [[Match(id=3, jaccard=1.0, batch='november', kept=True)]]
    >>> store.delete([3]).documents, store.lookup(["Another text!"])
    (1, [[]])
    >>> store.admit([words, "A new text."], ids=[4, 5])
    [Verdict(id=4, of=1, jaccard=1.0, unsure=False), Verdict(id=5, of=None, jaccard=None, unsure=False)]
    >>> [(commit.operation, commit.batch, commit.kept) for commit in store.history()]
    [('add', 'october', 1), ('add', 'november', 1), ('delete', '', 0)]
    """

    path: Location
    key_file: str = ""

    @property
    def _tables(self) -> Tables:
        return Tables(os.fspath(self.path))

    def _take(self) -> Tables:
        """Return the tables, with all that was admitted."""
        take_admitted(self._tables)
        return self._tables

    def _admit_alone(self) -> Lock:
        return Lock(Storage(), f"{os.fspath(self.path)}/{FOLDER}/lock", of="store")

    def add(
        self,
        input: Any,  # noqa: A002, ANN401 - as of `deduplicate`
        batch: str,
        output: Location | None = None,
        *,
        reelect: bool = False,
        spark: "SparkSession | None" = None,
        **keywords: "Unpack[BatchOptions]",
    ) -> Result[Any]:
        """Add documents, and tell which of them are duplicates of each other or of earlier ones.

        Parameters
        ----------
        input, output, spark, **keywords
            As for `deduplicate`.
        batch, reelect
            As for `deduplicate` with a store.

        Returns
        -------
        Result
            As of `deduplicate`, of this batch; `changes` are of earlier ones.

        Raises
        ------
        DedupError
            As `deduplicate`; the store is what it was.
        """
        return deduplicate(input, output, spark=spark, store=self.path, batch=batch, reelect=reelect, **keywords)

    def open(self) -> View:
        """Open it for many look-ups, which all see it as it is now.

        Raises
        ------
        StorageError
            When there is none.
        ConfigError
            When the key, or Unicode's data, are others than the store's.
        """
        return View.open(os.fspath(self.path), key_file=self.key_file)

    def lookup(self, texts: Iterable[str], *, threshold: float | None = None) -> list[list[Match]]:
        """Return for each text the documents that resemble it: see `dedup.lookup`."""
        return list(self.open().look_up(texts, threshold=threshold))

    @contextlib.contextmanager
    def admission(self) -> Iterator[Admission]:
        """Open it to take documents one by one, which one process at a time does.

        Raises
        ------
        StorageError
            When there is none, or another process does.
        ConfigError
            When it has other layers than near, its `keep.order` asks for columns, or the key or Unicode's data are
            others than the store's.
        """
        read_state(self._tables)
        with self._admit_alone() as lock, contextlib.closing(Admission(self.open(), lock.check)) as admission:
            yield admission

    def admit(self, texts: Iterable[str], ids: Sequence[int | str] | None = None) -> list[Verdict]:
        """Take in documents at once, and tell which are duplicates of others of the store or of those admitted before.

        Opening takes a second for a million documents: for many calls use `admission`. The next batch, `delete` and
        `compact` take what was admitted into the tables.

        Parameters
        ----------
        ids
            The user's own; by default digests of the texts.

        Raises
        ------
        DedupError
            As `admission`; a DataError where an id is another document's, and nothing was admitted.
        """
        refuse_single("texts", texts)
        request = Request([*texts], ids)
        with self.admission() as admission:
            admission.check(request)
            [answers] = admission.admit([request])
        if isinstance(answers, DataError):
            raise answers
        return answers

    def delete(self, ids: Iterable[int | str], *, readmit: bool = False) -> Deleted:
        """Take documents out of all tables; `vacuum` makes it final.

        Parameters
        ----------
        ids
            The user's own.
        readmit
            Whether documents that were removed in their favour may be kept instead.

        Raises
        ------
        DedupError
            As `store.deleting.delete_ids`.
        """
        refuse_single("ids", ids)
        return delete_ids(self._take(), [str(each) for each in ids], readmit=readmit)

    def erase(
        self,
        ids: Iterable[int | str] | None = None,
        *,
        where: Mapping[str, str] | None = None,
        texts: Iterable[str] | None = None,
        outputs: Sequence[Location] = (),
        sign_with: str = "",
    ) -> dict[str, Any]:
        """Take documents out of it and out of the outputs of its batches, at once and for good.

        Nobody may write to it or to these meanwhile. After a crash the same call finishes.

        Parameters
        ----------
        ids, where, texts
            Documents, by one of the three: ids; `source` or `batch`, and its value; texts of the same shingles.
        outputs
            Further outputs of its batches, such as those that were moved.
        sign_with
            Path of the key of the receipt's signature.

        Returns
        -------
        dict
            The receipt, which names no document: see docs/growing.md.

        Raises
        ------
        DedupError
            When there is no store, or an output cannot be changed.
        """
        from dedup.run import erasing  # noqa: PLC0415 - it needs what a run does

        given = [name for name, each in (("ids", ids), ("where", where), ("texts", texts)) if each is not None]
        if len(given) != 1:
            raise ConfigError(f"erase: needs one of ids, where and texts (got {', '.join(given) or 'none'})")

        for name, each in (("ids", ids), ("texts", texts), ("outputs", outputs)):
            refuse_single(name, each)

        def choose(snapshot: Snapshot) -> Iterable[int | str]:
            if ids is not None:
                return ids
            if where is not None:
                return find_where(snapshot, where)
            return [each.id for found in self.open().look_up(texts or (), threshold=1.0) for each in found]

        key = read_key(sign_with, "--sign-with") if sign_with else b""
        told = " ".join([*given, *(where or {})])
        paths = [os.fspath(each) for each in outputs]
        with contextlib.ExitStack() as alone:
            if list_segments(self._tables):
                alone.enter_context(self._admit_alone())
                take_admitted(self._tables, idle=True)
            return erasing.erase(os.fspath(self.path), told, choose, outputs=paths, key=key)

    def history(self) -> Sequence[Commit]:
        """Return what was done, oldest first.

        Raises
        ------
        StorageError
            When there is no store.
        """
        return upkeep.list_history(self._tables)

    def check(self, *, mend: bool = False, hours: float = 24) -> Sequence[Finding]:
        """Read it to the end, and hold its tables against each other; return what is wrong.

        Parameters
        ----------
        mend
            Whether what belongs to nothing is taken away.
        hours
            Age from which on what no commit names was left by a crash.
        """
        if not HOURS.holds(hours, float):
            raise ConfigError(f"hours: must be {HOURS.rule(float)} (got {hours!r})")
        return upkeep.check(self._tables, mend=mend, hours=hours)

    def compact(self) -> upkeep.Compacted:
        """Write many small files as few large ones."""
        return upkeep.compact(self._take())

    def vacuum(self, *, hours: int = 168) -> int:
        """Delete files that have been no part of it for so many hours; return their number.

        Parameters
        ----------
        hours
            More than any writer takes.

        Raises
        ------
        ConfigError
            When the hours are no whole number of at least 0; nothing was done.
        StorageError
            As `store.upkeep.vacuum`.
        """
        if not HOURS.holds(hours, int):
            raise ConfigError(f"hours: must be {HOURS.rule(int)} (got {hours!r})")
        tables = self._take()
        if list_segments(tables):
            # A process that admits documents has the last segment of the journal, and begins another after this state.
            try:
                with self._admit_alone():
                    take_admitted(tables, idle=True)
            except StorageError:
                take_beside(tables)
        return upkeep.vacuum(tables, hours)

    def migrate(
        self,
        to: Location,
        inputs: Mapping[str, str] = MappingProxyType({}),
        *,
        config: Location | Config | None = None,
        cut_over: bool = False,
        preset: str | None = None,
        settings: Mapping[str, object] = MappingProxyType({}),
        **keywords: "Unpack[Keywords]",
    ) -> "Migrated":
        """Make another store of its batches, of other settings, beside this one, or let this one become it.

        Parameters
        ----------
        to
            The other store; what it has already stays.
        inputs
            Files of batches by name, where texts must be read again.
        cut_over
            Whether this store then has the tables and settings of the other, in one commit; else it stays as it is.
        config, preset, settings, **keywords
            As for `deduplicate`.

        Returns
        -------
        Migrated
            Documents whose decision is another there, `changes`, and `edges` that one of both has alone.

        Raises
        ------
        DedupError
            When the settings, an input or a store do not allow it; a StorageError where another process admits
            documents while it cuts over.
        """
        from dedup.run.migrating import migrate  # noqa: PLC0415 - it needs what a run does

        chosen = load_given(config, preset, settings, keywords)
        # What is admitted meanwhile would be of the earlier settings.
        with self._admit_alone() if cut_over else contextlib.nullcontext():
            self._take()
            return migrate(os.fspath(self.path), os.fspath(to), inputs, chosen, cuts_over=cut_over)
