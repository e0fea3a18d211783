"""Tables of every type that parquet, IPC and ORC hold, for Hypothesis and by hand."""

import datetime as dt
import decimal

import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(max_size=6)


def _decimals(precision, scale):
    most = 10 ** min(precision, 30) - 1
    return st.integers(-most, most).map(lambda value: decimal.Decimal(value).scaleb(-scale))


WIDTHS = (8, 16, 32, 64)
FLAT = [
    *(
        (pa.type_for_alias(f"int{bits}"), st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
        for bits in (8, 16, 32, 64)
    ),
    *((pa.type_for_alias(f"uint{bits}"), st.integers(0, (1 << bits) - 1)) for bits in (8, 16, 32, 64)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), st.binary(max_size=6)),
    (pa.large_binary(), st.binary(max_size=6)),
    (pa.binary(4), st.binary(min_size=4, max_size=4)),
    (pa.decimal128(20, 3), _decimals(17, 3)),
    (pa.decimal256(60, 5), _decimals(30, 5)),
    (pa.date32(), st.dates()),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    *((pa.timestamp(unit), st.integers(-(10**9), 10**9)) for unit in ("ms", "us", "ns")),
    *((pa.timestamp(unit, "Europe/Berlin"), st.integers(-(10**9), 10**9)) for unit in ("ms", "us", "ns")),
    (pa.duration("ns"), st.integers(-(10**9), 10**9)),
    (pa.null(), st.none()),
    (pa.dictionary(pa.int32(), pa.string()), TEXT),
    (pa.uuid(), st.binary(min_size=16, max_size=16)),
    (pa.json_(), st.just('{"a": 1}')),
]


def _nest(kinds):
    names = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)
    maybe = kinds.map(lambda each: (each[0], st.none() | each[1]))
    return st.one_of(
        maybe.map(lambda each: (pa.list_(each[0]), st.lists(each[1], max_size=3))),
        maybe.map(lambda each: (pa.large_list(each[0]), st.lists(each[1], max_size=3))),
        maybe.map(lambda each: (pa.map_(pa.string(), each[0]), st.lists(st.tuples(TEXT, each[1]), max_size=2))),
        st.tuples(names, maybe).map(
            lambda both: (
                pa.struct([(name, both[1][0]) for name in both[0]]),
                st.fixed_dictionaries(dict.fromkeys(both[0], both[1][1])),
            )
        ),
    )


NESTABLE = st.sampled_from([each for each in FLAT if not isinstance(each[0], pa.BaseExtensionType | pa.DictionaryType)])
KINDS = st.sampled_from(FLAT) | st.recursive(NESTABLE, _nest, max_leaves=3)
METADATA = st.none() | st.dictionaries(st.sampled_from(["pandas", "huggingface", "k"]), TEXT, max_size=2)


@st.composite
def tables(draw, kinds=KINDS, most=12):
    """Draw a table with columns `id` and `text`, and some of any type, with metadata of fields and of the whole."""
    rows = draw(st.integers(1, most))
    fields = [
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("text", pa.large_string(), metadata={"of": "field"}),
    ]
    columns = [pa.array(range(rows), pa.uint32()), pa.array([f"text {row}" for row in range(rows)], pa.large_string())]
    for place, (kind, values) in enumerate(draw(st.lists(kinds, max_size=4))):
        fields.append(pa.field(f"column {place}", kind))
        column = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns.append(to_array(column, kind))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=draw(METADATA)))


def to_array(values, kind):
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def changed_by_spark():
    """Return a table of the types that Spark's readers change."""
    now = dt.datetime(2026, 11, 22, 2, 44, 18, 123456, dt.UTC)
    times = [now, None, now, None, now]
    maps = [[("k", 1)], [], None, [("a", 2), ("b", None)], [("k", 1)]]
    return pa.table(
        {
            "id": pa.array(range(5), pa.uint32()),
            "text": pa.array([f"text {row}" for row in range(5)]).dictionary_encode(),
            "ns": pa.array(times, pa.timestamp("ns")),
            "zone": pa.array(times, pa.timestamp("us", "UTC")),
            "map": pa.array(maps, pa.map_(pa.string(), pa.int64())),
        },
        metadata={"huggingface": '{"info": {"features": {}}}'},
    )
