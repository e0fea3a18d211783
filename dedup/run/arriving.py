"""The layers run on a batch and what a store has of earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

import pyarrow as pa

from dedup.engine.engine import Engine, Rows
from dedup.engine.workers import count_cores
from dedup.informing import BASELINE
from dedup.layers import NEAR
from dedup.layers.chain import Chain
from dedup.layers.foreign import count_for_foreign
from dedup.layers.layer import Layer, NothingToSearchError
from dedup.layers.near.comparison import PAIRS
from dedup.layers.near.layer import NearLayer
from dedup.layers.near.signing import signatures
from dedup.run.clock import Clock
from dedup.run.execution import Run
from dedup.run.job import Job
from dedup.run.layers import load_layers
from dedup.run.opening import list_input
from dedup.run.search import Searched, search_layer
from dedup.settings.files import to_dict
from dedup.settings.options import Config
from dedup.store.adding import Arrival, Grown, grow
from dedup.store.earlier import Aside, StoredKeys, find_owners, follow, write_aside
from dedup.store.outcome import list_changes, name_documents, tell
from dedup.store.schemas import FILES, list_layouts
from dedup.store.snapshot import Snapshot
from dedup.store.state import State, read_rows
from dedup.store.supply import supply_texts
from dedup.store.tables import Tables
from dedup.tables.counts import Near, Signed, Stored

REMEMBERED = 10
"""Batches whose mean the removal rate is held against."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arriving(Generic[Rows]):
    """Documents of a batch, before it is held against what a store has."""

    run: Run[Rows]
    batch: str
    """Name of the batch."""
    anew: bool
    keeps: bool
    batches: tuple[str, ...]
    """As of `growing.Growth`."""
    tables: Tables
    near: NearLayer
    content: str
    """Digest of the documents, see `adding.digest_content`."""
    register: Rows
    """REGISTER of all; SIGNATURES where near is the one layer."""
    signed: Signed | None
    """Counts of these; None where other layers come first."""

    def grow(self, engine: Engine[Rows], state: State) -> tuple[Searched[Rows], Grown[Rows]]:
        """Run the layers on the documents and what a store has, and write what the store will have."""
        run = self.run
        clock, config, [part] = run.clock, run.job.config, run.parts
        tables, threads = self.tables, count_cores() if run.given.search == "process" else 1
        snapshot = Snapshot(tables=tables, state=state)
        if self.batches:
            snapshot = snapshot.choose_batches(self.batches)
        snapshot = snapshot.send(threads)
        before, after = split_layers(config)
        chain, first = self._search(Chain(engine=engine), before, snapshot)
        rest = chain.rest("store") if before else engine
        documents, signed = self._sign(rest)
        owned = None
        if chain.removals is not None:
            with clock.time("earlier"):
                owned = find_owners(rest, snapshot, "owners", chain.removals, len(before))
        arrival = Arrival(
            name=self.batch,
            content=self.content,
            register=self.register,
            documents=documents,
            is_held=self.near.signing.holds != "none",
            owners=None if owned is None else rest.select(owned, doc_id="owner"),
            supply=partial(supply_texts, documents=documents, signing=self.near.signing),
            id_column=config.input.id_column,
            files=None if config.shingles.stored else _list_texts(run.job),
        )
        grown = grow(
            rest,
            tables,
            state,
            arrival,
            anew=self.anew,
            chosen=snapshot.chosen,
            all_lead=not self.keeps,
            for_led=config.keep.drop == "without",
            threads=threads,
            has_sources=bool(config.input.source_column),
            stage=clock.time,
            inform=clock.inform,
        )
        near, changes = {}, [engine.parallelise("no_changes", list_changes(engine.id_type).empty_table())]
        all_lead = not self.keeps
        followed = None if owned is None else follow(rest, grown, "followed", owned, all_lead=all_lead)
        if signed is None:
            chain = chain if followed is None else chain.follow(NEAR, followed)
        else:
            with clock.time("representatives"):
                told = tell(rest, grown, signed, config.threshold)
            note(clock, grown, told.counts)
            chain = chain.add(NEAR, replace(told.found, earlier=followed))
            near, changes = {part.name: told.counts}, [told.changes]
        chain, last = self._search(chain, after, snapshot)
        if after and chain.removals is not None:
            owned = find_owners(engine, snapshot, "last_owners", chain.removals, len(config.layers))
            chain = chain.follow("owners", follow(engine, grown, "last_followed", owned, all_lead=all_lead))
        if self.keeps and config.layers != (NEAR,):
            with clock.time("aside"):
                grown = write_aside(engine, grown, first, last, has_near=signed is not None)
        assert chain.documents is not None
        searched = Searched(
            chain=chain,
            documents=chain.documents,
            near=near,
            by_profile={},
            named=name_documents(engine, snapshot, chain.documents, _list_pairs(chain), chain.spans),
            changes=engine.concat(*changes, *first.changes, *last.changes) if self.keeps else None,
            earlier=clock.inform(BASELINE, remember, tables, state, config) if self.keeps else None,
            without=None if self.keeps else _count_without(chain, grown),
        )
        return searched, grown

    def _search(
        self, chain: Chain[Rows], kinds: Sequence[type[Layer]], snapshot: Snapshot
    ) -> tuple[Chain[Rows], Aside[Rows]]:
        """Run some layers other than near."""
        run, aside = self.run, Aside[Rows]()
        [part] = run.parts
        for kind in kinds:
            layers, earlier = len(run.job.config.layers), chain
            past = StoredKeys(snapshot=snapshot, layer=kind.name, layers=layers, all_lead=not self.keeps)
            try:
                chain, found = search_layer(chain, kind, part, run.context, run.clock, past=past)
            except NothingToSearchError:
                chain = chain.skip(kind.name)
                continue
            aside.note(earlier, kind.name, found, snapshot)
        return chain, aside

    def _sign(self, rest: Engine[Rows]) -> tuple[Rows, Signed | None]:
        """Return SIGNATURES of what near is given, none without near."""
        if self.signed is not None:
            return self.register, self.signed
        if NEAR in self.run.job.config.layers:
            return self.near.sign(rest)
        none = signatures(rest.id_type, self.near.signing.hashed).empty_table()
        return rest.parallelise("signatures", none), None


def split_layers(config: Config) -> tuple[list[type[Layer]], list[type[Layer]]]:
    """Return the layers before near, or all where it is none, and those behind it."""
    kinds = load_layers(config)
    place = config.layers.index(NEAR) if NEAR in config.layers else len(kinds)
    return [*kinds[:place]], [*kinds[place + 1 :]]


def _list_texts(job: Job) -> pa.Table:
    """Return rows of the table `files` for the files of a job, by their numbers."""
    every, own = list_input(job).absolute().every, job.config.input
    columns = {"text_column": own.text_column, "id_column": own.id_column}
    rows = [{"file": number, "path": file.path, "format": file.format.name} for number, file in enumerate(every)]
    return pa.Table.from_pylist([row | columns for row in rows], list_layouts(pa.int64())[FILES].schema)


def _count_without(chain: Chain[Rows], grown: Grown[Rows]) -> dict[str, int]:
    assert chain.documents is not None
    snapshot, chosen = grown.snapshot, grown.snapshot.chosen
    documents = snapshot.count("documents") if chosen is None else chosen.doc_ids.size
    removed = count_for_foreign(chain.engine, chain.documents, chain.removals, grown.known)
    return {"documents": documents, "removed": removed}


def _list_pairs(chain: Chain[Rows]) -> Rows:
    """Return all edges and near misses, of vectors too, without their similarity."""
    engine, names = chain.engine, PAIRS.names
    found = [
        engine.select(each, *names) for each in (chain.edges, chain.near_misses, chain.cosines) if each is not None
    ]
    return engine.concat(*found) if found else engine.parallelise("no_pairs", PAIRS.empty_table())


def note(clock: Clock, grown: Grown[Rows], counts: Near) -> None:
    """Take note of what the stages have counted."""
    clock.note("identical", counts.collapsed)
    clock.note("sets", Stored(rows=grown.fresh))
    clock.note("edges", counts.verified)
    clock.note("representatives", counts.elected)
    clock.note("store", Stored(rows=grown.arrived))


def remember(tables: Tables, state: State, config: Config) -> dict[str, Any] | None:
    """Return what the last batches before a state had in common, as an earlier run's report; None without any."""
    rows, _ = read_rows(tables)
    listed = rows.drop_columns(["state"]).to_pylist()
    earlier = [row for row in listed if row["batch"] and row["number"] <= state.number]
    documents = sum(row["documents"] for row in earlier[-REMEMBERED:])
    if not documents:
        return None
    removed = documents - sum(row["kept"] for row in earlier[-REMEMBERED:])
    named = f"{tables.path}, its last {len(earlier[-REMEMBERED:])} batches"
    return {"removal_rate": removed / documents, "settings": to_dict(config), "output": named}
