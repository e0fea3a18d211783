"""Points in time as ISO 8601 writes them."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.files.times import count, parse


def read(*texts):
    """Return nanoseconds since 1970 of strings, None of those that are no point in time."""
    found, is_time = parse(pa.array(texts, pa.large_string()))
    numbers = zip(found.microseconds.tolist(), found.nanoseconds.tolist(), is_time.tolist(), strict=True)
    return [micro * 1000 + nano if good else None for micro, nano, good in numbers]


def tell(moment):
    """Return nanoseconds since 1970 of a moment that NumPy reads."""
    return int(np.datetime64(moment, "us").astype(np.int64)) * 1000


def write_date(day, form):
    year, week, weekday = day.isocalendar()
    return {
        "%Y-%m-%d": f"{day.year:04}-{day.month:02}-{day.day:02}",
        "%Y%m%d": f"{day.year:04}{day.month:02}{day.day:02}",
        "%Y-%j": f"{day.year:04}-{day.timetuple().tm_yday:03}",
        "%Y%j": f"{day.year:04}{day.timetuple().tm_yday:03}",
        "%G-W%V-%u": f"{year:04}-W{week:02}-{weekday}",
        "%GW%V%u": f"{year:04}W{week:02}{weekday}",
    }[form]


forms = st.sampled_from(["%Y-%m-%d", "%Y%m%d", "%Y-%j", "%Y%j", "%G-W%V-%u", "%GW%V%u"])


@given(
    micro=st.integers(tell("0001-01-02") // 1000, tell("9999-12-30") // 1000),
    nano=st.integers(0, 999),
    form=forms,
    marks=st.tuples(st.sampled_from("T t"), st.sampled_from(["", ":"])),
    zone=st.integers(-1439, 1439),
)
@example(micro=tell("2021-01-03T23:59:59.999999") // 1000, nano=999, form="%G-W%V-%u", marks=("T", ":"), zone=0)
@example(micro=tell("2020-12-31") // 1000, nano=1, form="%Y-%j", marks=("T", ""), zone=90)
def test_every_form_of_a_moment_is_read_to_the_nanosecond(*, micro, nano, form, marks, zone):
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro, minutes=zone)
    mark, colon = marks
    clock = local.strftime(f"%H{colon}%M{colon}%S,%f") + f"{nano:03}"
    offset = f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}{colon}{abs(zone) % 60:02}"

    assert read(f"{write_date(local.date(), form)}{mark}{clock}{offset}") == [micro * 1000 + nano]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", "2024-01-01"),
        ("2024-03", "2024-03-01"),
        ("2024-W05", "2024-01-29"),
        ("2020-W53-7", "2021-01-03"),
        ("2024-366", "2024-12-31"),
        ("2024-01-31T10", "2024-01-31T10:00:00"),
        ("2024-01-31T1030Z", "2024-01-31T10:30:00"),
        ("2024-01-31T10.5", "2024-01-31T10:30:00"),
        ("2024-01-31 10:30,25+01", "2024-01-31T09:30:15"),
        ("2024-01-31T24:00:00Z", "2024-02-01"),
        ("2016-12-31T23:59:60Z", "2017-01-01"),
        ("T24:00:00Z", "1970-01-02"),
        ("T10:30", "1970-01-01T10:30:00"),
        ("0001-01-01", "0001-01-01"),
        ("9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999"),
    ],
)
def test_what_is_left_out_is_the_first_of_its_kind(text, moment):
    assert read(text, text.lower()) == [tell(moment)] * 2


def test_a_fraction_of_an_hour_is_exact_to_the_nanosecond():
    assert read("T00.000000000000278", "T00:00.00000000001667") == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        *("202401", "24", "2024-1", "2024-00", "2024-13", "2023-02-29", "2024-01-32", "2024-000", "2023-366"),
        *("2024-W00", "2024-W53", "2024-W05-0", "2024-W05-8", "2024-01-31T", "2024-01-31Z", "2024-01-31T24:00:00.1"),
        *("2024-01-31T24:01", "2024-01-31T25", "2024-01-31T10:60", "2024-01-31T10:00:61", "2024-01-31T10:00+24"),
        *("2024-01-31T10:00+01:60", "10:00", "x", "\uff12\uff10\uff12\uff14", "2024\n"),
    ],
)
def test_what_is_no_point_in_time_is_none(text):
    assert read("2024", text) == [tell("2024-01-01"), None]


def test_nulls_are_none():
    assert read(None, "1970") == [None, 0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([date(1970, 1, 2), None]), [86400 * 10**9, 0]),
        (pa.array([np.datetime64("1969-12-31T23:59:59.999999999", "ns")]), [-1]),
        (pa.array([10**18 + 1], pa.timestamp("ns", "Asia/Tokyo")), [10**18 + 1]),
        (pa.array([5], pa.timestamp("s")), [5 * 10**9]),
        (pa.array([datetime(1970, 1, 1, 1, tzinfo=UTC)]), [3600 * 10**9]),
    ],
)
def test_typed_moments_are_counted_to_the_nanosecond(values, expected):
    found = count(values)

    assert (found.microseconds * 1000 + found.nanoseconds).tolist() == expected
