"""What a search must find, said slowly: plain Python on the sets of a few rows, one pair and one bucket at a time."""

import math
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np

from dedup.kernels import removal_statistics
from dedup.kernels.curve import least_estimate
from dedup.kernels.sets import lsh, templates
from dedup.layers.near.search import Search
from dedup.tables.counts import Lost
from tests import oracles
from tests.engine import SEED, Row
from tests.kernels import ragged

CLOSEST, MARGIN, FOLLOWERS = 3, 0.2, 16


def signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


class Expected:
    """Attributes are named and filled as those of `Found`."""

    def __init__(self, rows: list[Row], search: Search, shingle_size: int) -> None:
        self.rows, self.search = rows, search
        words = {row.doc_id: oracles.tokens(row.text) for row in rows}
        hashed = {doc_id: [oracles.token_hash(token, 1) for token in found] for doc_id, found in words.items()}
        self.sets = {doc_id: oracles.shingle_hashes(found, shingle_size) for doc_id, found in hashed.items()}
        self.ids = {row.doc_id: row.id for row in rows}
        self.sources = {row.doc_id: row.source for row in rows}
        self.copies = Counter(row.doc_id for row in rows)
        least: dict[tuple | int, int] = {}
        for doc_id in sorted(self.sets):
            least.setdefault(tuple(self.sets[doc_id]) or doc_id, doc_id)
        self.head = {doc_id: least[tuple(members) or doc_id] for doc_id, members in self.sets.items()}
        self.heads = sorted(doc_id for doc_id, members in self.sets.items() if members and self.head[doc_id] == doc_id)
        self.identical = sorted((one, head) for one, head in self.head.items() if one != head)
        self.repeated = sorted((doc_id,) for doc_id, count in self.copies.items() if count > 1)
        self._bucket()
        self._pair()
        below = {pair: j for pair, j in self.compared.items() if search.threshold - MARGIN <= j < search.threshold}
        self.edges = {pair: j for pair, j in self.compared.items() if j >= search.threshold}
        self.near_misses = {
            pair: below[pair]
            for end in {end for pair in below for end in pair}
            for pair in sorted((pair for pair in below if end in pair), key=lambda p: (-below[p], p))[:CLOSEST]
        }
        self.components = oracles.components([*self.edges, *self.identical])
        self._elect()

    def jaccard(self, left: int, right: int) -> float:
        one, other = set(self.sets[left]), set(self.sets[right])
        return len(one & other) / max(len(one | other), 1)

    def _keys(self) -> list[tuple[int, int]]:
        search = self.search
        if search.mode == "lsh":
            for doc_id in self.heads:
                values = oracles.signature(self.sets[doc_id], search.bands * search.rows, SEED)
                self.low[doc_id] = [value & 0xFF for value in values]
                for key in oracles.band_keys([value & 0xFFFFFFFF for value in values], search.bands, search.rows):
                    yield from [(key, doc_id)] * self.copies[doc_id]
            return
        every = [shingle for one in self.heads for shingle in self.sets[one] * self.copies[one]]
        frequencies = Counter(every)
        for doc_id in self.heads:
            members = self.sets[doc_id]
            length = len(members) - math.ceil(search.threshold * len(members) - 1e-9) + 1
            # Equal rows are read as one set that has every shingle as often as there are rows.
            ordered = sorted(
                (frequencies[shingle], signed(shingle), shingle)
                for shingle in members * self.copies[doc_id]
                if frequencies[shingle] > 1
            )
            taken = max(length - (len(members) - len(ordered)), 0)
            yield from [(shingle, doc_id) for *_, shingle in ordered[:taken]]

    def _bucket(self) -> None:
        self.low: dict[int, list[int]] = {}
        keyed = list(self._keys())
        self.band_rows = len(keyed)
        buckets = defaultdict(set)
        for key, doc_id in keyed:
            buckets[key].add(doc_id)
        self.buckets = {key: sorted(members) for key, members in buckets.items() if len(members) > 1}

    def _pair(self) -> None:
        search = self.search
        cap = search.max_bucket * (8 if search.mode == "exact" else 1)
        listed = [pair for members in self.buckets.values() if len(members) <= cap for pair in combinations(members, 2)]
        large = {key: members for key, members in self.buckets.items() if len(members) > cap}
        chosen, undecided = self._link(sorted({one for members in large.values() for one in members}), cap)
        fewer = {key: [one for one in members if one in undecided] for key, members in large.items()}
        self.circled = {key: members for key, members in fewer.items() if len(members) > 1}
        self.uncompared = 0
        circles = []
        for key, members in self.circled.items():
            pairs = list(combinations(members, 2))
            if len(members) > cap:
                every = len(pairs)
                circle = sorted(members, key=lambda one: oracles.mix((one & oracles.MASK) ^ key))
                half = cap // 2
                steps = min(max(cap**2 // (2 * len(members)), min(FOLLOWERS, half)), half)
                places = [(place, place + step) for place in range(len(circle)) for step in range(1, steps + 1)]
                pairs = [(circle[one], circle[other % len(circle)]) for one, other in places]
                self.uncompared += every - len(pairs)
            circles += [tuple(sorted(pair)) for pair in pairs]
        every = sum(len(members) * (len(members) - 1) // 2 for members in large.values())
        self.settled = every - len(circles) - self.uncompared
        listed += circles
        self.in_buckets = len(listed)
        listed += chosen
        self.distinct = set(listed)
        self.after_length, self.candidates = self._select(self.distinct)
        self.compared = {pair: self.jaccard(*pair) for pair in self.candidates}

    def _select(self, distinct: set[tuple[int, int]]) -> tuple[int, dict[tuple[int, int], float | None]]:
        """Return how many pairs sizes do not rule out, and those that the estimate does not either, with it."""
        search = self.search
        sizes = {doc_id: len(members) for doc_id, members in self.sets.items()}
        possible = [
            (left, right)
            for left, right in sorted(distinct)
            if min(sizes[left], sizes[right]) >= search.threshold * max(sizes[left], sizes[right]) * (1 - 1e-12)
        ]
        estimates = dict.fromkeys(possible)
        if search.mode == "lsh":
            size = search.bands * search.rows
            floor = least_estimate(search.threshold, size, search.estimate_sigmas)
            for left, right in possible:
                agreed = sum(a == b for a, b in zip(self.low[left], self.low[right], strict=True)) / size
                estimates[left, right] = (agreed - 1 / 256) / (1 - 1 / 256)
            estimates = {pair: estimate for pair, estimate in estimates.items() if estimate >= floor}
        return len(possible), estimates

    def _link(self, members: list[int], cap: int) -> tuple[set[tuple[int, int]], set[int]]:
        """Return the pairs that `templates.link` makes, which has an oracle of its own, and who is undecided."""
        shingles, offsets = ragged(self.sets[one] for one in members)
        items = templates.Items(shingles, offsets, np.diff(offsets))
        linked = templates.link(items, self.search.threshold, cap, exhaust=self.search.mode == "exact")
        pairs = zip(linked.left.tolist(), linked.right.tolist(), strict=True)
        return {(members[left], members[right]) for left, right in pairs}, {members[one] for one in linked.undecided}

    def lose(self) -> Lost:
        """Return the counts of `Lost`: buckets are asked one by one, as if each had a task to itself."""
        drawn = set()
        if self.uncompared:
            share = min(1_000_000 / self.uncompared, 1.0)
            for key, members in self.circled.items():
                bucket = np.array([key], np.uint64), np.array(members), np.array([0, len(members)])
                left, right = lsh.sample_uncompared(*bucket, self.search.max_bucket, share)
                drawn |= set(zip(left.tolist(), right.tolist(), strict=True))
        possible = [pair for pair in self._select(drawn)[1] if not self.are_joined(*pair)]
        return Lost(
            documents=len({one for members in self.circled.values() for one in members}),
            drawn=len(drawn),
            possible=len(possible),
            # Fewer than are ever drawn once more.
            verified=len(possible),
            lost=sum(self.jaccard(*pair) >= self.search.threshold for pair in possible),
        )

    def are_joined(self, left: int, right: int) -> bool:
        places = self.components
        return left in places and places[left] == places.get(right)

    def _key(self, doc_id: int) -> list:
        """Return what a document is ordered by, with a null behind all others."""
        row, keys = self.row_of[doc_id], []
        for name, of in self.search.rules:
            if name == "source":
                listed = of.split(",")
                place = listed.index(row.source) if row.source in listed else len(listed)
                keys.append((row.source is None, place))
            elif name == "smallest_id":
                keys.append(self._id_key(doc_id))
            else:
                value = len(row.text.encode()) if name in {"longest", "shortest"} else row.value
                falls = name in {"longest", "highest", "latest"}
                keys.append((value is None, 0 if value is None else -value if falls else value))
        return [*keys, self._id_key(doc_id)]

    def _id_key(self, doc_id: int) -> object:
        user_id = self.ids[doc_id]
        return user_id.encode() if isinstance(user_id, str) else user_id

    def _elect(self) -> None:
        search = self.search
        families = defaultdict(list)
        for doc_id, place in sorted(self.components.items()):
            families[place].append(doc_id)
        self.families = families
        self.row_of = {row.doc_id: row for row in self.rows}
        self.keys = {doc_id: self._key(doc_id) for doc_id in self.components}
        giant = {place for place, family in families.items() if 0 < search.max_component < len(family)}
        self.relinked = 0 if search.by_representative else len(giant)
        sizes = {doc_id: len(members) for doc_id, members in self.sets.items()}

        def is_similar(one: int, other: int) -> bool | None:
            if min(sizes[one], sizes[other]) < search.threshold * max(sizes[one], sizes[other]) * (1 - 1e-12):
                return None
            return self.jaccard(one, other) >= search.threshold

        owners, known = {}, {}
        for place, family in families.items():
            found = oracles.choose_kept(
                {one: (place, self.head[one], self.keys[one]) for one in family},
                dict.fromkeys(self.edges, True),
                is_similar,
                starred=lambda component: search.by_representative or component in giant,
            )
            owners |= found[0]
            known |= found[1]
        groups = defaultdict(list)
        for doc_id in sorted(owners, key=self.keys.get):
            groups[owners[doc_id]].append(doc_id)
        names = [":".join(filter(None, rule)) for rule in search.rules] + ["smallest_id"]
        differing = [
            next(name for name, *both in zip(names, self.keys[one], self.keys[two], strict=True) if both[0] != both[1])
            for one, two in (group[:2] for group in groups.values() if len(group) > 1)
        ]
        self.rules = Counter(differing)
        self.members, self.distant, removed = {}, 0, defaultdict(list)
        self.owners = owners
        self.linked = self.edges | {pair: self.jaccard(*pair) for pair, similar in known.items() if similar}
        for doc_id, place in sorted(self.components.items()):
            owner = owners[doc_id]
            left, right = sorted((self.head[doc_id], self.head[owner]))
            is_kept = owner == doc_id
            self.distant += not is_kept and left != right and (left, right) not in known
            kind = "kept" if is_kept else "identical" if left == right else "near"
            sources = self.sources[doc_id], self.sources[owner]
            charged = self._charge(doc_id, owner) if kind != "kept" and search.per_source else []
            for source in charged:
                removed[source].append(doc_id)
            similarity = 1.0 if is_kept or left == right else self.jaccard(left, right)
            self.members[doc_id] = (
                self.ids[doc_id],
                owner,
                self.ids[owner],
                place,
                kind,
                similarity,
                left,
                right,
                *sources,
            )
            self.members[doc_id] += (charged if search.per_source else None,)
        limit = search.per_source
        late = {doc_id for listed in removed.values() for doc_id in sorted(listed)[limit:]} if limit else set()
        self.spared = sorted((doc_id, self.members[doc_id][4]) for doc_id in late)
        for doc_id in late:
            user_id, _, _, place, _, _, *rest = self.members[doc_id]
            self.members[doc_id] = (user_id, doc_id, user_id, place, "kept", 1.0, *rest)
        self._doubt(known, len(groups))

    def _doubt(self, known: dict, staying: int) -> None:
        search = self.search
        self.removed = sum(told[4] != "kept" for told in self.members.values())
        near = [(one, told) for one, told in sorted(self.members.items()) if told[4] == "near"]
        self.near = len(near)
        gone = [told[5] for told in self.members.values() if told[4] != "kept"]
        self.chained, self.least = sum(each < search.threshold for each in gone), min(gone, default=None)
        self.similarities = [0] * 20
        for _, told in near:
            self.similarities[min(sum(told[5] >= number / 20 for number in range(1, 20)), 19)] += 1
        self.doubtful, seen = [], set()
        for one, (user_id, other, named, _, _, similarity, *ends) in sorted(
            near, key=lambda each: (each[1][5], each[0])
        ):
            if tuple(ends[:2]) not in seen and len(seen) < 10:
                seen.add(tuple(ends[:2]))
                self.doubtful.append((one, user_id, other, named, "near", similarity, *ends[:2]))
        strict, _ = oracles.choose_kept(
            {one: (place, self.head[one], self.keys[one]) for one, place in self.components.items()},
            dict.fromkeys(self.edges, True) | known,
            lambda *_: None,
            starred=lambda _: True,
        )
        self.parted = 0 if search.by_representative else len({*strict.values()}) - staying
        self.joined = [
            self._count_joined(each, {*self.edges, *known})
            for each in removal_statistics.choose_thresholds(search.threshold)
        ]

    def _count_joined(self, threshold: float, known: set) -> int | None:
        if threshold < self.search.threshold - MARGIN - 1e-12:
            return None
        pairs = [pair for pair in known | {*self.near_misses} if self.jaccard(*pair) >= threshold]
        places = oracles.components(pairs)
        return len(places) - len(set(places.values()))

    def _charge(self, doc_id: int, kept: int) -> list[str | None]:
        """Return the sources that answer for a removal, by name."""
        goal, own = self.head[kept], self.sources[doc_id]
        steps, ring = {goal: 0}, [goal]
        while ring:
            around = {end for pair in self.linked for end in pair if set(pair) & set(ring)} - set(steps)
            steps |= dict.fromkeys(around, steps[ring[0]] + 1)
            ring = sorted(around)
        place, between = self.head[doc_id], []
        while steps[place] > 1:
            nearer = [
                (-similarity, other)
                for pair, similarity in self.linked.items()
                if place in pair and steps[other := sum(pair) - place] == steps[place] - 1
            ]
            place = min(nearer)[1]
            between.append(self.sources[place])
        charged = {source for source in between if source != own} or {self.sources[kept]} - {own}
        return sorted(charged, key=str)

    def largest(self) -> list[dict]:
        ordered = sorted(self.families.items(), key=lambda item: (-len(item[1]), item[0]))[:5]
        told = []
        for place, family in ordered:
            kept = self.owners[family[0]]
            shown = [kept, *[one for one in family if one != kept][:3]]
            examples = [{"doc_id": one, "id": self.ids[one]} for one in shown]
            named = {"doc_id": place, "component_id": self.ids[place]}
            told.append({"documents": len(family), **named, "examples": examples})
        return told
