"""Documents admitted to a store one by one: whether each is a duplicate at once, the tables by the next batch.

texts -> features -> sets met in the store and among those admitted since -> edges -> answers -> journal
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import ConfigError, DataError
from dedup.files.orders import list_asking
from dedup.files.systems import redact
from dedup.kernels import Bytes, Flags, Hashes, Integers
from dedup.kernels.digests import digest_runs
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs import blocks
from dedup.kernels.sets import pairs
from dedup.kernels.sets.exact import take
from dedup.kernels.sets.shingles import digest
from dedup.kernels.text.tokenizer import read_buffers
from dedup.layers.near import comparison
from dedup.layers.near.comparison import SignedSets
from dedup.settings.rules import refuse_single
from dedup.store.arrays import distinct, is_in
from dedup.store.journal import Journal, Position, list_columns, read_journal
from dedup.store.lookup import View, to_strings
from dedup.store.resident import Keyed, Resident, find_met, insert
from dedup.store.schemas import KEYED
from dedup.store.snapshot import Snapshot
from dedup.store.state import STORED, State, read_state
from dedup.tables.ids import SHOWN

Met: TypeAlias = dict[int, list[tuple[int, float]]]
"""Numbers and exact Jaccard of the sets that others resemble, the most similar first, by the place of these."""


class Verdict(NamedTuple):
    """Verdict on a document that was admitted."""

    id: int | str
    of: int | str | None
    """The document of the store, or of those admitted before, that it resembles most; None where it is no duplicate."""
    jaccard: float | None
    """Exact."""
    unsure: bool
    """Whether it is no duplicate of those met, but `buckets.max_bucket` or more share a band with it, and no more of
    them were."""

    @property
    def duplicate(self) -> bool:
        """Tell whether it resembles another."""
        return self.of is not None


class Request(NamedTuple):
    """Documents to be admitted, all or none."""

    texts: Sequence[str]
    ids: Sequence[int | str] | None
    """The user's own; None: digests of the texts."""


class Group(NamedTuple):
    """Documents that are admitted together."""

    ids: list[int | str]
    doc_ids: list[int]
    contents: list[bytes]
    """Digests of shingle sets; empty without a token."""
    sets: tuple[Hashes, Integers]
    low: Bytes
    """Low bytes of signatures, uint8 [documents, bands x rows]."""
    keys: Hashes
    """Band keys, uint64 [documents, bands]."""


class Pending:
    """Documents admitted since the last batch, with their distinct shingle sets numbered on from those of the store."""

    def __init__(self, first: int, *, by_representative: bool) -> None:
        self.first, self._by_representative = first, by_representative
        self.runs: list[Keyed] = []
        self.sets: list[Hashes] = []
        self.low: list[Bytes] = []
        self.ids: list[int | str] = []
        """First document of each set."""
        self.closed: set[int] = set()
        """Sets of which no document was kept, where only those kept count."""
        self.copies: dict[bytes, Verdict] = {}
        """Answers to further documents of a set, by its digest."""
        self.answers: dict[int, tuple[bytes, Verdict]] = {}
        """Digests and answers by doc_id."""

    def insert(self, group: Group, chosen: Iterable[int]) -> tuple[Integers, int]:
        """Take in the sets of some places that are not there, and return their places and the number of the first."""
        fresh: dict[bytes, int] = {}
        for place in chosen:
            content = group.contents[place]
            if content and content not in self.copies:
                fresh.setdefault(content, place)
        places, number = np.array([*fresh.values()], np.int64), self.first + len(self.sets)
        values, bounds = take(*group.sets, places)
        self.runs = insert(self.runs, group.keys[places], number)
        self.sets += [values[begin:end] for begin, end in pairwise(bounds.tolist())]
        self.low += [*group.low[places]]
        return places, number

    def keep(self, doc_id: int, content: bytes, answer: Verdict) -> None:
        """Remember the answer to a document, whose set is there; the sets' first ones come in their order."""
        self.answers[doc_id] = content, answer
        if not content or content in self.copies:
            return
        copied = Verdict(answer.id, answer.id, 1.0, unsure=False)
        if answer.duplicate and self._by_representative:
            self.closed.add(self.first + len(self.ids))
            copied = answer
        self.copies[content] = answer if answer.jaccard == 1 else copied
        self.ids.append(answer.id)


class Admission:
    """A store that takes documents one by one, of which there is one at a time.

    A document is compared as a batch of those admitted, in their order, would compare it: with those of the store and
    all before it that share a band key and whose estimate allows the threshold, by exact Jaccard.

    Parameters
    ----------
    check
        Raises an error where another process may have begun to admit, so that no answers are given.
    """

    def __init__(self, view: View, check: Callable[[], None] = lambda: None) -> None:
        state, self._tables = view.snapshot.state, view.snapshot.tables
        check_admitting(state, redact(self._tables.path))
        self._view, self._check, self._kind = view, check, state.kind
        self._journal = Journal(self._tables, Position(*state.admitted))
        self._frames = [*read_journal(self._tables, Position(*state.admitted), state.kind)]
        self.take_over(Resident.load(view.snapshot))
        # Compiled loops are loaded now, not while the first document waits.
        self._sign(pa.nulls(1, self._kind), view.shingle(pa.array(["a few words"])))

    @property
    def pending(self) -> int:
        """Documents admitted since the last batch."""
        return sum(rows.num_rows for _, rows in self._frames)

    @property
    def stored(self) -> int:
        """Documents of the store."""
        return self._resident.doc_ids.size

    def look(self) -> Resident | None:
        """Return the store as it is now, to be taken over; None where it is as before."""
        state = read_state(self._tables)
        if state.number == self._resident.snapshot.state.number:
            return None
        return Resident.load(Snapshot(tables=self._tables, state=state))

    def take_over(self, resident: Resident) -> None:
        """Go by a store as it is now, and compare with what it has not."""
        self._resident, search = resident, resident.snapshot.state.search
        self._estimate = comparison.estimate(search.threshold, search.least_estimate, cap=search.cap).work
        self._verify = comparison.verify(search.threshold, near_misses=False).work
        after = resident.snapshot.state.admitted
        left = [(position, rows) for position, rows in self._frames if position > tuple(after)]
        self._frames = []
        if left:
            rows = pa.Table.from_batches([rows for _, rows in left]).combine_chunks().to_batches()[0]
            # A batch may have had an id that was admitted while it was added.
            rows = rows.filter(pa.array(~is_in(rows["doc_id"].to_numpy(), resident.doc_ids)))
            self._frames = [(left[-1][0], rows)]
        self._rebuild()
        self._journal.begin()

    def _rebuild(self) -> None:
        """Make what is in memory of what is on storage."""
        state = self._resident.snapshot.state
        self._pending = Pending(state.sets, by_representative=state.search.by_representative)
        for _, rows in self._frames:
            group = self._sign(rows["id"], blocks.unlists(rows["shingles"], "<u8"))
            self._pending.insert(group, range(rows.num_rows))
            told = map(Verdict, *(rows[name].to_pylist() for name in Verdict._fields))
            owners = to_doc_ids(rows["of"])
            is_there = is_in(owners, self._resident.doc_ids) | is_in(owners, np.sort(group.doc_ids))
            for doc_id, content, answer, stays in zip(group.doc_ids, group.contents, told, is_there, strict=True):
                # Whose own has been deleted is one of its own: further copies are its.
                self._pending.keep(doc_id, content, answer if stays else answer._replace(of=None, jaccard=None))
                self._pending.answers[doc_id] = content, answer

    def close(self) -> None:
        """Admit no more."""
        self._journal.close()

    def check(self, request: Request) -> None:
        """Refuse what is no document.

        Raises
        ------
        DataError
            When a text is no string, or an id not of the type of the store's.
        ConfigError
            When the texts, or the ids, are one string.
        """
        refuse_single("texts", request.texts)
        refuse_single("ids", request.ids)
        for text in request.texts:
            if type(text) is not str:
                raise DataError(f"texts: must be strings (got {text!r})")
        if request.ids is None:
            return
        if len(request.ids) != len(request.texts):
            raise DataError(f"ids: must be one of each text (got {len(request.ids)} of {len(request.texts)})")
        kind = str if pa.types.is_string(self._kind) else int
        for each in request.ids:
            if type(each) is not kind:
                raise DataError(f"ids: must be of type {self._kind}, as those of the store are (got {each!r})")
            if isinstance(each, int) and not -(1 << 63) <= each < 1 << 63:
                raise DataError(f"ids: must be of 64 bits (got {each})")

    def _name(self, requests: Sequence[Request], texts: pa.Array) -> tuple[pa.Array, Flags]:
        """Return the ids of documents, and which were given; a text without one has its digest."""
        is_named = np.repeat([each.ids is not None for each in requests], [len(each.texts) for each in requests])
        none = repeat(None)
        given = [each for own in requests for each, _ in zip(own.ids or none, own.texts, strict=False)]
        ids = to_strings(given) if pa.types.is_string(self._kind) else pa.array(given, self._kind)  # type: ignore[arg-type]
        if is_named.all():
            return ids, is_named
        digests = digest_runs(*read_buffers(texts), self._view.tokenizer.key)
        is_number = pa.types.is_integer(self._kind)
        named = digests[:, 0] if is_number else [row.tobytes().hex() for row in digests]
        return pc.coalesce(ids, pa.array(named, self._kind)), is_named

    def admit(self, requests: Sequence[Request]) -> list[list[Verdict] | DataError]:
        """Take in the documents of requests, one after the other, and tell which of them are duplicates.

        Returns
        -------
        list
            Answers to each request, which are on storage; an error where an id is another document's, and nothing of
            the request was admitted. An id that was admitted before, with the same shingle set, has its answer again.

        Raises
        ------
        StorageError
            When the storage fails; whether the documents were admitted is unknown then.
        """
        bounds = [*pairwise(accumulate((len(each.texts) for each in requests), initial=0))]
        texts = to_strings([text for each in requests for text in each.texts])
        ids, is_named = self._name(requests, texts)
        group = self._sign(ids, self._view.shingle(texts))
        is_stored = is_in(np.array(group.doc_ids), self._resident.doc_ids)
        refused = self._refuse(group, bounds, is_named, is_named & is_stored)
        places = [place for error, own in zip(refused, bounds, strict=True) if not error for place in range(*own)]
        try:
            answers, fresh = self._answer(group, places, is_named)
            self._write(group, [place for place in fresh if not is_stored[place]], answers, texts)
        except BaseException:
            self._rebuild()
            raise
        return [error or [answers[place] for place in range(*own)] for error, own in zip(refused, bounds, strict=True)]

    def _sign(self, ids: pa.Array, sets: tuple[Hashes, Integers]) -> Group:
        sizes, digests = np.diff(sets[1]).tolist(), digest(*sets)
        contents = [each if size else b"" for each, size in zip(digests, sizes, strict=True)]
        signer = self._resident.snapshot.state.signer
        return Group(ids.to_pylist(), to_doc_ids(ids).tolist(), contents, sets, *signer.sign(*sets))

    def _refuse(
        self, group: Group, bounds: Sequence[tuple[int, int]], is_named: Flags, is_taken: Flags
    ) -> list[DataError | None]:
        """Return an error for each request with an id that is another document's."""
        known, refused = dict[int, bytes](), list[DataError | None]()
        for begin, end in bounds:
            own = dict[int, bytes]()
            taken = []
            for place in range(begin, end):
                doc_id, content = group.doc_ids[place], group.contents[place]
                before = own.get(doc_id, known.get(doc_id, self._pending.answers.get(doc_id, (content,))[0]))
                if is_taken[place] or (is_named[place] and before != content):
                    taken.append(group.ids[place])
                own[doc_id] = content
            told = ", ".join(map(repr, taken[:SHOWN]))
            refused.append(
                DataError(f"ids: must be of no other document (got {len(taken)} that are: {told})") if taken else None
            )
            known |= {} if taken else own
        return refused

    def _answer(self, group: Group, places: Sequence[int], is_named: Flags) -> tuple[dict[int, Verdict], list[int]]:
        """Return the answers to documents by place, and the places of those that were not there."""
        pending, answers, fresh = self._pending, dict[int, Verdict](), list[int]()
        searched, first = pending.insert(group, places)
        met, doubtful = self._search(group, searched, first)
        numbers = {place: number for number, place in enumerate(searched.tolist())}
        for place in places:
            own, doc_id, content = group.ids[place], group.doc_ids[place], group.contents[place]
            if doc_id in pending.answers:
                before = pending.answers[doc_id][1]
                answers[place] = before if is_named[place] or not content else Verdict(own, own, 1.0, unsure=False)
                continue
            answer = Verdict(own, None, None, unsure=False)
            if content in pending.copies:
                answer = pending.copies[content]._replace(id=own)
            elif content:
                number = numbers[place]
                links = [link for link in met.get(number, ()) if link[0] not in pending.closed]
                answer = answer._replace(unsure=not links and number in doubtful)
                if links:
                    answer = Verdict(own, self._find_id(links[0][0]), links[0][1], unsure=False)
            pending.keep(doc_id, content, answer)
            answers[place] = answer
            fresh.append(place)
        return answers, fresh

    def _find_id(self, number: int) -> int | str:
        """Return the user's id of a document of a set."""
        pending = self._pending
        return self._resident.name(number) if number < pending.first else pending.ids[number - pending.first]

    def _search(self, group: Group, searched: Integers, first: int) -> tuple[Met, set[int]]:
        """Return what sets resemble, numbered from `first` on, and which are in a bucket over the cap."""
        state, pending = self._resident.snapshot.state, self._pending
        keys = group.keys[searched]
        met, numbers, doubtful = find_met([self._resident.bands, *pending.runs], keys, first, state.search.cap)
        found: Met = {}
        if met.size:
            left, right = pairs.decode(distinct(pairs.encode(met, numbers)))
            others = distinct(right[right < first])
            stored, later = np.split(others, [np.searchsorted(others, pending.first)])
            theirs = self._resident.list_sets(stored)
            listed = [*theirs, *(pending.sets[number - pending.first] for number in later.tolist())]
            own, own_bounds = take(*group.sets, searched)
            sizes = np.concatenate((np.diff(own_bounds), np.array([each.size for each in listed], np.int64)))
            values, bounds = np.concatenate((own, *listed)), np.concatenate(([0], np.cumsum(sizes)))
            end = searched.size + stored.size
            again = state.signer.sign(
                values[own_bounds[-1] : bounds[end]], bounds[searched.size : end + 1] - own_bounds[-1]
            )
            low = [pending.low[number - pending.first][None] for number in later.tolist()]
            signatures = np.concatenate((group.low[searched], again[0], *low))
            at = np.where(right >= first, right - first, searched.size + np.searchsorted(others, right))
            likely = self._estimate(SignedSets(sizes, signatures), left, at).chosen
            left, right, at = left[likely], right[likely], at[likely]
            compared = self._verify((values, bounds), left, at)
            left, right, exact = left[compared.chosen], right[compared.chosen], compared.columns["jaccard"].to_numpy()
            order = np.lexsort((right, -exact, left))
            for place, number, similarity in zip(*(each[order].tolist() for each in (left, right, exact)), strict=True):
                found.setdefault(place, []).append((number, similarity))
        return found, {*doubtful.tolist()}

    def _write(self, group: Group, places: Sequence[int], answers: Mapping[int, Verdict], texts: pa.Array) -> None:
        """Put documents into the journal."""
        if places:
            chosen, told = np.array(places), [answers[place] for place in places]
            columns = {name: [getattr(each, name) for each in told] for name in Verdict._fields}
            columns |= {
                "doc_id": [group.doc_ids[place] for place in places],
                "text_bytes": pc.binary_length(texts).take(pa.array(chosen)),
                "shingles": blocks.lists(*take(*group.sets, chosen)),
            }
            schema = list_columns(self._kind)
            arrays = [pa.array(columns[each.name], each.type) for each in schema]
            rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
            self._frames.append((self._journal.append(rows), rows))
        self._check()


def check_admitting(state: State, where: str) -> None:
    """Refuse a store whose batches do what is not done with single documents.

    Raises
    ------
    ConfigError
    """
    state.check_kept()
    if not state.has_sets:
        raise ConfigError(f"{where}: must hold shingle sets ({STORED} = true) to admit documents, whose texts go")
    if KEYED in state.segments:
        raise ConfigError(f'{where}: must be a store of layers = ["near"] to admit documents')
    if keyed := [f"{name}:{of}" for name, of in list_asking(state.search.rules)]:
        raise ConfigError(f"{where}: keep.order must ask for no columns to admit documents (got {', '.join(keyed)})")
