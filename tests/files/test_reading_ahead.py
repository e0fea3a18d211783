"""Parts of a file of which the next is read while one is worked on."""

from itertools import count
from threading import Event

import pytest

from dedup.files.formats.columnar import read_ahead


def test_the_next_part_is_read_while_one_is_worked_on_and_no_more():
    read, begun = [], Event()

    def parts():
        for number in count():
            read.append(number)
            if number == 2:
                begun.set()
            yield number

    ahead = read_ahead(parts())
    assert [next(ahead), next(ahead)] == [0, 1]
    assert begun.wait(10)
    ahead.close()
    assert read == [0, 1, 2]


def test_parts_come_in_order_and_a_fault_where_it_is():
    def parts():
        yield from range(100)
        raise OSError("damaged")

    found = []
    with pytest.raises(OSError, match="damaged"):
        found.extend(read_ahead(parts()))
    assert found == [*range(100)]
