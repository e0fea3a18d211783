"""The profiles of a run: which documents are of each, and what becomes of them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Tally
from dedup.files.profile_filter import Condition, ProfileFilter, number_profiles
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.layer import NothingToSearchError
from dedup.report.profiles import Profiled
from dedup.run.layers import list_conditions, list_places
from dedup.settings.contract import load_tokenizer
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.settings.profiles import DEFAULT
from dedup.tables import arrow
from dedup.tables.counts import Layered, Near, Written

LOG = logging.getLogger("dedup")
PROFILE, PROFILES = "profile", "profiles"
SCHEMA = pa.schema([(PROFILE, pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Documents that are searched by themselves, and how."""

    name: str
    """Name of the profile; empty where there are none."""
    config: Config
    tokenizer: Tokenizer
    spec: HashSpec
    places: Mapping[str, Sequence[int]]
    """Places of the columns of each layer among those that are read along, by its name."""
    chosen: ProfileFilter | None = None
    """None where all documents are meant."""

    @property
    def prefix(self) -> str:
        """Beginning of the names of tables and stages."""
        return f"{self.name}_" if self.name else ""


def list_parts(config: Config) -> list[Part]:
    """Return the profiles with their settings, or all documents as one part where there are none."""
    conditions, places = list_conditions(config), list_places(config)
    parts = []
    for number, (name, own) in enumerate(config.by_profile.items()):
        tokenizer = load_tokenizer(own)
        chosen = ProfileFilter(conditions, number) if conditions else None
        named = name if conditions else ""
        spec = HashSpec.of(own, tokenizer)
        parts.append(Part(name=named, config=own, tokenizer=tokenizer, spec=spec, places=places, chosen=chosen))
    return parts


def scan(engine: Engine[Rows], config: Config) -> Rows:
    """Read all documents: REGISTER with the number of the `profile` of each, and the histogram `profiles`."""
    schema = pa.schema([*arrow.register(engine.id_type), *SCHEMA])
    work = partial(_number, conditions=list_conditions(config), schema=schema)
    return engine.without(None, None, PROFILES).scan("documents", work, schema)


def choose_parts(parts: Sequence[Part], counted: Mapping[int, int]) -> Iterator[Part]:
    """Yield the profiles that have documents; a warning tells of others.

    Parameters
    ----------
    counted
        Documents by number of the profile.

    Raises
    ------
    NothingToSearchError
        When there is no document.
    """
    if not any(counted.values()):
        raise NothingToSearchError
    for number, part in enumerate(parts):
        if counted.get(number):
            yield part
        elif part.name != DEFAULT:
            LOG.warning('profile "%s": its condition holds for no document', part.name)


def tell_parts(
    parts: Sequence[Part],
    layers: Mapping[str, Sequence[Layered]],
    nears: Mapping[str, Near],
    removed: Mapping[tuple[int, str], int],
) -> list[Profiled]:
    """Return what became of the documents of each profile; nothing where there are none.

    Parameters
    ----------
    layers, nears
        By profile.
    removed
        Documents, by number of the profile and layer.
    """
    told = []
    for number, part in enumerate(parts):
        if not part.name:
            continue
        steps = layers.get(part.name) or [Layered(layer=part.config.layers[0], documents=0, text_bytes=0)]
        removed_by = {layer: count for (of, layer), count in removed.items() if of == number}
        gone = sum(removed_by.values())
        near = nears.get(part.name, Near.none())
        written = Written(
            kept=steps[0].documents - gone,
            removed=gone,
            edges=near.verified.rows,
            near_misses=0,
            removed_by=removed_by,
        )
        told.append(Profiled(name=part.name, config=part.config, layers=steps, near=near, written=written))
    return told


def _number(
    batches: Batches, *, conditions: tuple[tuple[Condition, ...], ...], schema: pa.Schema
) -> Iterator[pa.RecordBatch | Tally]:
    """Give documents the numbers of their profiles; the tally has their histogram."""
    for batch in batches:
        numbers = number_profiles(batch["merged"], conditions)
        yield Tally().add_each(PROFILES, numbers)
        columns = [batch[name] for name in schema.names if name != PROFILE]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(numbers)], schema=schema)
