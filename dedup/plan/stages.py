"""Stages of a run: bytes stored and shuffled, tasks and time."""

import math

from dedup.engine import placement
from dedup.plan.passages import find_passages
from dedup.plan.profile import CorpusProfile
from dedup.plan.rates import Rates
from dedup.plan.rows import RowCounts
from dedup.plan.shuffles import (
    INPUT_SPLIT_BYTES,
    PLACE_BYTES,
    ROW_BYTES,
    SIGNATURE_ROW_BYTES,
    Item,
    StageCost,
    blocks,
    keyed,
    leave_out_identical,
    meet,
)

MEMBER_ROW_BYTES = 48
"""Bytes of a row of MEMBERS without its two user ids: five numbers of 8 bytes, a kind of 4 to 9 characters with its
length."""
FOREST_BYTES = 270
"""Bytes that GraphFrames shuffles for an edge of the forest, in all its rounds: `scripts/bench`, graphframes less
driver."""
REMOVED_PLACE_BYTES = 8
"""Bytes of the place of a row to remove: 8.1 to 8.3 in runs of three corpora."""
SUM_BYTES = 20
"""Bytes that a partition of shingles sends for a document after LZ4: five numbers of 8 bytes."""
RARE_BYTES = 10
"""Bytes that it sends for a rare shingle after LZ4: three numbers of 8 bytes, two of them in runs."""
FATE_ROW_BYTES = 60
"""Bytes of a stored removed row, without the user's ids."""


def list_stages(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> list[StageCost]:
    """Return the stages in order, partitioned and broadcast as the pipeline would."""
    stages = [
        _sign(rows, corpus, cores, rates),
        _collapse(rows, corpus, cores, rates),
        _bucket(rows, corpus, cores, rates),
        _link(rows, corpus, cores, rates),
        _pair(rows, rates),
        _verify(rows, corpus, cores, rates),
        _connect(rows, cores, rates),
        _sample(rows, cores, rates),
        _elect(rows, corpus, cores, rates),
        find_passages(rows, corpus, cores, rates),
        _write(rows, corpus, rates),
    ]
    return [stage for stage in stages if stage is not None]


def _signatures(rows: RowCounts, corpus: CorpusProfile) -> Item:
    each = SIGNATURE_ROW_BYTES + corpus.id_bytes + rows.choice.signature_bytes
    return Item(what="documents", count=rows.documents, each=each)


def _sign(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost:
    text_bytes = rows.documents * corpus.text_bytes
    sampled = min(rows.documents, placement.SAMPLE_BYTES / max(corpus.text_ratio * corpus.text_bytes, 1.0))
    return StageCost(
        name="signatures",
        shuffle=[],
        tables=[_signatures(rows, corpus), Item(what="tokens of a sample", count=sampled, each=4 * corpus.tokens)],
        partitions=max(cores, math.ceil(text_bytes / INPUT_SPLIT_BYTES)),
        core_seconds=text_bytes * rates.text_byte + rows.documents * rows.choice.signature_size * rates.row,
    )


def _collapse(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost:
    partitions = placement.place_identical(rows.documents, cores)
    one = blocks(rows.documents, 1, partitions, _signatures(rows, corpus).bytes, cores)
    return StageCost(
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


def _bucket(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost:
    bands = rows.choice.bands
    partitions = placement.place_bands(rows.documents, bands, cores)
    return StageCost(
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


def _link(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost | None:
    """Plan the comparison in place of buckets over the cap; None without such buckets; docs/templates.md."""
    if not rows.hot:
        return None
    partitions = placement.place_prefixes(rows.hot_shingles, cores)
    told = Item(what="members, by partitions of shingles", count=rows.hot * partitions, each=SUM_BYTES)
    return StageCost(
        name="templates",
        shuffle=[
            Item(what="members of buckets over the cap", count=rows.hot, each=ROW_BYTES),
            Item(what="places of members, to their splits", count=rows.hot, each=PLACE_BYTES),
            Item(what="sizes of their sets", count=rows.hot, each=ROW_BYTES),
            Item(what="their shingles", count=rows.hot_shingles, each=rows.hot_bytes),
            told,
            Item(what="rare shingles, told to members", count=rows.rare_shingles, each=RARE_BYTES),
            Item(what="rare shingles of prefixes", count=rows.prefix_shingles, each=8),
        ],
        tables=[
            Item(what="shingle sets", count=rows.hot_shingles, each=8),
            Item(what="what tells members apart", count=rows.hot, each=40),
            Item(what="rare shingles of prefixes", count=rows.prefix_shingles, each=8),
            Item(what="buckets in their place", count=rows.linked, each=16),
        ],
        partitions=partitions,
        core_seconds=rows.hot * corpus.text_bytes * (rates.scanned_byte + rates.text_byte)
        + rows.hot_shingles * rates.band
        + rows.linked * rates.pair,
    )


def _pair(rows: RowCounts, rates: Rates) -> StageCost:
    size = rows.choice.signature_size
    pairs = rows.pairs + rows.linked
    meeting = placement.place_pairs(pairs, rows.memberships + rows.linked, rows.documents, size)
    moved = meet(
        pairs=Item(what="pairs", count=pairs, each=rows.pair_bytes),
        ends=2 * rows.distinct,
        among=rows.bucketed,
        holders=rows.heads,
        payload=rows.signature_bytes,
        meeting=meeting,
    )
    # Documents brought to their id to be found there are at the place where identical ones are left out.
    found_by_id = not meeting.broadcast and not (meeting.whole and meeting.groups == 1)
    return StageCost(
        name="candidates",
        shuffle=moved if found_by_id else [*leave_out_identical(rows, size), *moved],
        tables=[Item(what="candidates", count=rows.candidates, each=24)],
        partitions=meeting.cells,
        core_seconds=rows.heads * rates.signature + rows.pairs * rates.pair,
    )


def _verify(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost:
    listed, made = 2 * rows.candidates, rows.sets - rows.hot
    tables = [
        Item(what="shingle sets", count=made, each=12),
        Item(what="shingles", count=max(rows.set_shingles - rows.hot_shingles, 0), each=8),
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
    shuffle.append(Item(what="places of documents, to their splits", count=made, each=PLACE_BYTES))
    pairs = Item(what="pairs", count=rows.candidates, each=rows.candidate_bytes)
    moved, meeting = _compare(rows, pairs, rows.ends, None, cores)
    seconds += made * corpus.text_bytes * rates.text_byte + rows.candidates * rates.comparison
    return StageCost(
        name="edges", shuffle=shuffle + moved, tables=tables, partitions=meeting.cells, core_seconds=seconds
    )


def _compare(
    rows: RowCounts, pairs: Item, among: float, own: float | None, cores: int
) -> tuple[list[Item], placement.Meeting]:
    """Return the shuffles that bring pairs to their shingle sets, and their partitioning."""
    meeting = placement.place_comparison(pairs.count, rows.sets, 8 * rows.set_shingles, cores)
    payload = rows.set_bytes * rows.set_shingles / rows.sets if rows.sets else 0.0
    moved = meet(
        pairs=pairs, ends=2 * pairs.count, among=among, holders=rows.sets, payload=payload, own=own, meeting=meeting
    )
    return moved, meeting


def _places(rows: RowCounts, each: float) -> Item:
    """Return the shuffle of all documents' places, sorted by id if an executor cannot hold those looked for."""
    return Item(what="places of documents", count=rows.documents, each=each + ROW_BYTES)


def _connect(rows: RowCounts, cores: int, rates: Rates) -> StageCost:
    is_spread = rows.engine == "graphframes"
    rounds = [Item(what="edges, all rounds", count=rows.links, each=FOREST_BYTES)]
    return StageCost(
        name="components",
        shuffle=rounds if is_spread else [],
        tables=[Item(what="members", count=rows.members, each=16)],
        partitions=cores if is_spread else 1,
        core_seconds=rows.links * rates.edge,
    )


def _sample(rows: RowCounts, cores: int, rates: Rates) -> StageCost | None:
    """Plan the comparison of a sample of the pairs left out by circles; None without such pairs."""
    if not rows.sampled:
        return None
    size = rows.choice.signature_size
    meeting = placement.place_pairs(rows.drawn, rows.memberships + rows.linked, rows.documents, size)
    drawn = meet(
        pairs=Item(what="pairs drawn", count=rows.drawn, each=rows.pair_bytes),
        ends=2 * rows.drawn,
        among=rows.undecided,
        holders=rows.heads,
        payload=rows.signature_bytes,
        meeting=meeting,
    )
    pairs = Item(what="pairs", count=rows.sampled, each=rows.candidate_bytes)
    among = min(rows.undecided, 2 * rows.sampled)
    own = rows.hot_bytes * rows.undecided_shingles / rows.undecided
    shuffle, meeting = _compare(rows, pairs, among, own, cores)
    return StageCost(
        name="uncompared",
        shuffle=drawn + shuffle,
        tables=[Item(what="pairs", count=rows.sampled, each=16)],
        partitions=meeting.cells,
        core_seconds=rows.drawn * rates.pair + rows.sampled * rates.comparison,
    )


def _elect(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost:
    shuffle = [
        Item(what="members", count=rows.members, each=ROW_BYTES + corpus.id_bytes),
        # The left ids of edges follow themselves as those of candidates do.
        Item(what="edges", count=rows.edges, each=ROW_BYTES + rows.candidate_bytes / 2),
    ]
    if not placement.fits_broadcast(rows.members):
        shuffle += [
            Item(what="ids of documents", count=rows.documents, each=ROW_BYTES + corpus.id_bytes),
            Item(what="members and edges, to be joined", count=2 * rows.members + rows.edges, each=ROW_BYTES),
        ]
    # Even one such pair is met by all small sets.
    chance = -math.expm1(-rows.distant)
    pairs = Item(what="distant pairs", count=rows.distant, each=16)
    own = rows.distant_bytes * rows.distant_shingles / rows.distant_ends if rows.distant_ends else 0.0
    moved, _ = _compare(rows, pairs, rows.distant_ends, own, cores)
    shuffle += [Item(what=item.what, count=item.count * chance, each=item.each) for item in moved]
    return StageCost(
        name="representatives",
        shuffle=shuffle,
        tables=[Item(what="members", count=rows.members, each=MEMBER_ROW_BYTES + 2 * corpus.id_bytes)],
        partitions=placement.place_members(rows.members, rows.edges, cores),
        core_seconds=rows.members * rates.member,
    )


def _write(rows: RowCounts, corpus: CorpusProfile, rates: Rates) -> StageCost:
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
    shuffle.append(Item(what="rows that go, to their files", count=rows.removed, each=REMOVED_PLACE_BYTES))
    partitions = max(1, math.ceil(text_bytes / INPUT_SPLIT_BYTES))
    tables = [Item(what="rows that go", count=rows.removed, each=FATE_ROW_BYTES + 2 * corpus.id_bytes)]
    return StageCost(name="output", shuffle=shuffle, tables=tables, partitions=partitions, core_seconds=seconds)
