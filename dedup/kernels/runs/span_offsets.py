"""Offsets of spans in a text before and after cuts."""

import numpy as np

from dedup.kernels import Integers


def move_back(begins: Integers, ends: Integers, cuts: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Map spans of a text with cuts to spans of the whole text, which include the cuts inside them.

    Parameters
    ----------
    begins, ends : int64 [spans]
    cuts
        Begins and ends of the cuts, ascending.
    """
    lost_begins, lost_ends = cuts
    lost = np.concatenate(([0], np.cumsum(lost_ends - lost_begins)))
    # Where in the shorter text each loss lies.
    places = lost_begins - lost[:-1]
    return begins + lost[np.searchsorted(places, begins, side="right")], ends + lost[np.searchsorted(places, ends)]


def unite_spans(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Unite overlapping or touching spans; ascending."""
    order = np.argsort(begins, kind="stable")
    begins, furthest = begins[order], np.maximum.accumulate(ends[order])
    firsts = np.append(True, begins[1:] > furthest[:-1])[: begins.size]
    return begins[firsts], furthest[np.append(firsts[1:], True)[: begins.size]]
