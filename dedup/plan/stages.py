"""The stages of a run: the bytes that each stores and shuffles, its tasks and its time."""

import math
from dataclasses import dataclass

from dedup.plan.profile import Profile
from dedup.plan.rates import Rates
from dedup.plan.rows import (
    INPUT_SPLIT_BYTES,
    ROW_BYTES,
    SIGNATURE_ROW_BYTES,
    Item,
    Rows,
    blocks,
    keyed,
    leave_out_identical,
    meet,
)
from dedup.stages import placement

MEMBER_ROW_BYTES = 48
"""A row of MEMBERS without its two user ids: five numbers of 8 bytes, a kind of 4 to 9 characters with its length."""
FOREST_BYTES = 270
"""Shuffled by GraphFrames for an edge of the forest, in all its rounds: `scripts/bench`, graphframes less driver."""
DISTANT_SHARE = 0.075
"""Share of chains of two edges whose end has no edge to the document kept, and is compared with it once more: 6 to 8 %
in the runs of `scripts/bench`."""
PLACE_BYTES = 16
"""The place of a document (split, file and row) after LZ4."""
FATE_ROW_BYTES = 60
"""A removed row as it is stored, without the user's ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The cost of one stage."""

    name: str
    shuffle: list[Item]
    tables: list[Item]
    """Tables written to OUT.partial."""
    partitions: int
    core_seconds: float

    @property
    def shuffle_bytes(self) -> float:
        """Bytes written to shuffles."""
        return sum(item.bytes for item in self.shuffle)

    @property
    def table_bytes(self) -> float:
        """Bytes written to OUT.partial."""
        return sum(item.bytes for item in self.tables)


def list_stages(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> list[Stage]:
    """Return the stages in their order, by the numbers that the pipeline partitions and broadcasts by."""
    return [
        _sign(rows, corpus, cores, rates),
        _collapse(rows, corpus, cores, rates),
        _bucket(rows, corpus, cores, rates),
        _pair(rows, rates),
        _verify(rows, corpus, cores, rates),
        _connect(rows, cores, rates),
        _elect(rows, corpus, cores, rates),
        _write(rows, corpus, rates),
    ]


def _signatures(rows: Rows, corpus: Profile) -> Item:
    each = SIGNATURE_ROW_BYTES + corpus.id_bytes + rows.choice.signature_bytes
    return Item(what="documents", count=rows.documents, each=each)


def _sign(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage:
    text_bytes = rows.documents * corpus.text_bytes
    sampled = min(rows.documents, placement.SAMPLE_BYTES / max(corpus.text_ratio * corpus.text_bytes, 1.0))
    return Stage(
        name="signatures",
        shuffle=[],
        tables=[_signatures(rows, corpus), Item(what="tokens of a sample", count=sampled, each=4 * corpus.tokens)],
        partitions=max(cores, math.ceil(text_bytes / INPUT_SPLIT_BYTES)),
        core_seconds=text_bytes * rates.text_byte + rows.documents * rows.choice.signature_size * rates.row,
    )


def _collapse(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage:
    partitions = placement.place_identical(rows.documents, cores)
    one = blocks(rows.documents, 1, partitions, _signatures(rows, corpus).bytes, cores)
    return Stage(
        name="identical",
        # Digests with ids, and ids once more, to find those of several rows.
        shuffle=[
            Item(what="documents", count=rows.documents, each=32),
            Item(what="blocks", count=2 * one.count, each=one.each),
        ],
        tables=[Item(what="identical documents", count=rows.identical, each=16)],
        partitions=partitions,
        core_seconds=rows.documents * rates.identical,
    )


def _bucket(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage:
    bands = rows.choice.bands
    partitions = placement.place_bands(rows.documents, bands, cores)
    return Stage(
        name="buckets",
        shuffle=[
            *leave_out_identical(rows, 8 * bands),
            *keyed(rows.heads, bands, partitions),
            blocks(rows.heads, bands, partitions, _signatures(rows, corpus).bytes, cores),
        ],
        tables=[
            Item(what="buckets", count=rows.buckets, each=16),
            Item(what="members", count=rows.memberships, each=8),
        ],
        partitions=partitions,
        core_seconds=rows.heads * bands * rates.band,
    )


def _pair(rows: Rows, rates: Rates) -> Stage:
    size = rows.choice.signature_size
    meeting = placement.place_pairs(rows.pairs, rows.memberships, rows.documents, size)
    moved = meet(
        pairs=rows.pairs,
        ends=2 * rows.distinct,
        among=rows.bucketed,
        holders=rows.heads,
        payload=size,
        meeting=meeting,
    )
    # Documents brought to their id to be found there are at the place where identical ones are left out.
    found_by_id = not meeting.broadcast and not (meeting.whole and meeting.groups == 1)
    return Stage(
        name="candidates",
        shuffle=moved if found_by_id else [*leave_out_identical(rows, size), *moved],
        tables=[Item(what="candidates", count=rows.candidates, each=24)],
        partitions=meeting.cells,
        core_seconds=rows.heads * rates.signature + rows.pairs * rates.pair,
    )


def _verify(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage:
    listed, set_bytes = 2 * rows.candidates, 8 * corpus.shingles
    tables = [
        Item(what="shingle sets", count=rows.ends, each=12 + set_bytes),
        Item(what="edges and near misses", count=rows.edges + rows.near_misses, each=24),
    ]
    shuffle = []
    seconds = rows.documents * corpus.text_bytes * rates.scanned_byte
    if not placement.fits_broadcast(listed):
        shuffle.append(Item(what="ends of candidates", count=listed, each=ROW_BYTES))
        tables.append(Item(what="documents of candidates", count=rows.ends, each=8))
        if not placement.fits_broadcast(rows.ends):
            shuffle += [
                _places(rows, PLACE_BYTES),
                Item(what="documents of candidates", count=rows.ends, each=ROW_BYTES),
            ]
            seconds += shuffle[-2].bytes * rates.shuffled_byte
    shuffle.append(Item(what="places of documents, to their splits", count=rows.ends, each=PLACE_BYTES))
    meeting = placement.place_comparison(rows.candidates, rows.ends, rows.ends * set_bytes, cores)
    shuffle += meet(
        pairs=rows.candidates,
        ends=listed,
        among=rows.ends,
        holders=rows.ends,
        payload=set_bytes,
        meeting=meeting,
    )
    seconds += rows.ends * corpus.text_bytes * rates.text_byte + rows.candidates * rates.comparison
    return Stage(name="edges", shuffle=shuffle, tables=tables, partitions=meeting.cells, core_seconds=seconds)


def _places(rows: Rows, each: float) -> Item:
    """Return where all documents stand, sorted by id where more are looked for than every executor's memory holds."""
    return Item(what="places of documents", count=rows.documents, each=each + ROW_BYTES)


def _connect(rows: Rows, cores: int, rates: Rates) -> Stage:
    is_spread = rows.engine == "graphframes"
    rounds = [Item(what="edges, all rounds", count=rows.links, each=FOREST_BYTES)]
    return Stage(
        name="components",
        shuffle=rounds if is_spread else [],
        tables=[Item(what="members", count=rows.members, each=16)],
        partitions=cores if is_spread else 1,
        core_seconds=rows.links * rates.edge,
    )


def _elect(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage:
    shuffle = [
        Item(what="members", count=rows.members, each=ROW_BYTES + corpus.id_bytes),
        Item(what="edges", count=rows.edges, each=ROW_BYTES + 8),
    ]
    if not placement.fits_broadcast(rows.members):
        shuffle += [
            Item(what="ids of documents", count=rows.documents, each=ROW_BYTES + corpus.id_bytes),
            Item(what="members and edges, to be joined", count=2 * rows.members + rows.edges, each=ROW_BYTES),
        ]
    # One such pair is enough to send small sets whole once more.
    chains = rows.heads * (2 * rows.edges / rows.heads) ** 2 / 2
    if (sets := rows.ends * 8 * corpus.shingles) <= placement.WHOLE_BYTES:
        chance = -math.expm1(-DISTANT_SHARE * chains)
        shuffle.append(Item(what="shingle sets, by the chance of a chain", count=chance, each=sets))
    return Stage(
        name="representatives",
        shuffle=shuffle,
        tables=[Item(what="members", count=rows.members, each=MEMBER_ROW_BYTES + 2 * corpus.id_bytes)],
        partitions=placement.place_members(rows.members, rows.edges, cores),
        core_seconds=rows.members * rates.member,
    )


def _write(rows: Rows, corpus: Profile, rates: Rates) -> Stage:
    text_bytes = rows.documents * corpus.text_bytes
    shuffle: list[Item] = []
    seconds = text_bytes * rates.written_byte
    if not placement.fits_broadcast(rows.members):
        named = 2 * (rows.edges + rows.identical + rows.members)
        shuffle = [
            _places(rows, PLACE_BYTES + corpus.id_bytes),
            Item(what="documents removed", count=rows.removed, each=ROW_BYTES + 2 * corpus.id_bytes),
            Item(what="edges and members, to be named", count=named, each=ROW_BYTES),
        ]
        seconds += sum(item.bytes for item in shuffle) * rates.shuffled_byte
    shuffle.append(Item(what="rows that go, to their files", count=rows.removed, each=PLACE_BYTES))
    partitions = max(1, math.ceil(text_bytes / INPUT_SPLIT_BYTES))
    tables = [Item(what="rows that go", count=rows.removed, each=FATE_ROW_BYTES + 2 * corpus.id_bytes)]
    return Stage(name="output", shuffle=shuffle, tables=tables, partitions=partitions, core_seconds=seconds)
