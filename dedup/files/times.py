"""Points in time to the nanosecond: ISO 8601 strings, dates and timestamps as integers."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

FORM = (
    r"(?i)^(?:(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?|(?P<plain_month>\d\d)(?P<plain_day>\d\d)"
    r"|-?(?P<ordinal>\d{3})|-?W(?P<week>\d\d)(?:-?(?P<weekday>[1-7]))?)?)?"
    r"(?:[T ](?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d))?)?(?:[.,](?P<fraction>\d+))?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hour>\d\d)(?::?(?P<zone_minute>\d\d))?)?)?$"
)
"""Form of a date, a time or both; a space may part them, as in RFC 3339. Six digits are no year and month, since in ISO
8601 they were a date with a two-digit year."""
DIGITS = 15
"""Digits of a fraction that count; of an hour the last stands for 4 picoseconds."""
HOUR, DAY = 3600, 86400
"""Seconds since 1970; int64."""


class Times(NamedTuple):
    """Points in time since 1970; int64 [n], 0 where there is none."""

    microseconds: Integers
    nanoseconds: Integers
    """Nanoseconds beyond the seconds, 0 to 999."""


def count(values: pa.Array) -> Times:
    """Convert dates and timestamps; those without a zone are UTC."""
    unit = "ns" if getattr(values.type, "unit", "") == "ns" else "us"
    counts = values.cast(pa.timestamp(unit, getattr(values.type, "tz", None)), safe=False).cast(pa.int64())
    numbers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    return Times(*np.divmod(numbers, 1000)) if unit == "ns" else Times(numbers, np.zeros_like(numbers))


def parse(values: pa.Array) -> tuple[Times, Flags]:
    """Parse strings.

    A date without its end is its first day, a time alone is of 1970-01-01, a leap second the first second after it.

    Parameters
    ----------
    values
        large_string array, n values.

    Returns
    -------
    times
        Points in time.
    is_time : bool [n]
        Flags of the strings that are one; null is none.
    """
    fields = pc.extract_regex(values, FORM)

    def read(name: str, default: int) -> Integers:
        digits = pc.struct_field(fields, name)
        numbers = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.int64()).fill_null(default)
        return np.asarray(numbers.to_numpy(zero_copy_only=False))

    days, is_date = _count_days(read)
    hours, minutes, seconds = (read(name, -1) for name in ("hour", "minute", "second"))
    unit = np.where(seconds >= 0, 1, np.where(minutes >= 0, 60, HOUR))
    hours, minutes, seconds = (np.maximum(each, 0) for each in (hours, minutes, seconds))
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(fields, "fraction"), DIGITS, "0"), 0, DIGITS)
    carried, nanoseconds = np.divmod(
        fraction.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * unit // 10 ** (DIGITS - 9), 10**9
    )
    zone_hours, zone_minutes = read("zone_hour", 0), read("zone_minute", 0)
    east = np.where(pc.equal(pc.struct_field(fields, "sign"), "-"), -1, 1)
    past = hours * HOUR + minutes * 60 + seconds + carried
    is_clock = (hours < 24) | ((hours == 24) & (past == DAY) & (nanoseconds == 0))
    is_clock &= (minutes < 60) & (seconds <= 60) & (zone_hours < 24) & (zone_minutes < 60)
    moments = days * DAY + past - east * (zone_hours * HOUR + zone_minutes * 60)
    is_time = is_date & is_clock & fields.is_valid().to_numpy(zero_copy_only=False)
    return Times(moments * 10**6 + nanoseconds // 1000, nanoseconds % 1000), is_time


def _count_days(read: Callable[[str, int], Integers]) -> tuple[Integers, Flags]:
    """Return the days since 1970 of dates by month, by day of the year or by week, and flags of the valid ones."""
    years = read("year", 1970) - 1970
    months, days = (
        np.where(read(plain, -1) >= 0, read(plain, -1), read(plain.removeprefix("plain_"), 1))
        for plain in ("plain_month", "plain_day")
    )
    ordinals, weeks = read("ordinal", -1), read("week", -1)
    begins, ends = (_begin(years * 12 + each, "M") for each in (months - 1, months))
    january, december = (_begin(years + each, "Y") for each in (0, 1))
    # 1970 began on a Thursday. The first week is that of the fourth of January; a week is of the year of its Thursday.
    mondays = january + 3 - (january + 6) % 7 + (weeks - 1) * 7
    of_week, of_year = weeks >= 0, ordinals >= 0
    found = np.select((of_week, of_year), (mondays + read("weekday", 1), january + ordinals), begins + days) - 1
    is_month = (months >= 1) & (months <= 12) & (days >= 1) & (days <= ends - begins)
    is_year = (ordinals >= 1) & (ordinals <= december - january)
    return found, np.select((of_week, of_year), ((weeks >= 1) & (mondays + 3 < december), is_year), is_month)


def _begin(numbers: Integers, unit: str) -> Integers:
    """Return the first days of months or years, in days since 1970."""
    return numbers.astype(f"M8[{unit}]").astype("M8[D]").astype(np.int64)
