"""Choices that meet targets, and targets that exclude each other."""

import numpy as np
import pytest
from scipy.special import ndtr

from dedup.errors import ConfigError
from dedup.kernels.curve import probability
from dedup.plan.answer import answer
from dedup.plan.choice import check, cost, solve
from dedup.plan.curve import compared
from dedup.plan.profile import CorpusProfile, Similarities
from dedup.plan.question import PlanQuestion
from dedup.plan.rates import Rates
from dedup.plan.show import to_text
from dedup.plan.wishes import Target, Wishes
from dedup.settings import banding
from dedup.settings.banding import MAX_SIGNATURE_SIZE, Banding
from dedup.settings.files import load_config

PASSED = 1 - ndtr(-4)
"""Least share of the pairs at the threshold or above it that pass the estimate filter."""
OTHERS = (0.6, 0.7, 0.75, 0.85, 0.9)
FIVE_TO_FIFTY = {"recall": ["0.99@0.5"], "candidates": ["0.001@0.05"]}


def ask(**wishes):
    return answer(PlanQuestion(config=load_config(), **wishes))


def pairs(found):
    return [(choice["bands"], choice["rows"]) for choice in found["choices"]]


def corpus(*partners):
    jaccard, counts = np.array(partners, dtype=float).reshape(-1, 2).T
    return CorpusProfile(
        source="", documents=10**6, text_bytes=1000, text_ratio=1, tokens=200, shingles=196, id_bytes=8, identical=0,
        similarities=Similarities(jaccard=jaccard, fixed=counts, share=np.zeros_like(counts)),
    )  # fmt: skip


def test_42_x_3_finds_the_pairs_but_makes_too_many_candidates():
    verdict = ask(**FIVE_TO_FIFTY, check="42x3")["check"]["targets"]

    assert [(target["target"], round(target["value"], 4), target["met"]) for target in verdict] == [
        ("--recall 0.99@0.5", 0.9963, True),
        ("--candidates 0.001@0.05", 0.0052, False),
    ]


def test_what_is_offered_meets_both_targets_with_the_fewest_bands():
    found = ask(**FIVE_TO_FIFTY)
    crossing = found["crossings"][0]

    assert pairs(found)[0] == (72, 4)
    assert 3 < crossing["rows"] < 4
    for bands, rows in pairs(found):
        assert PASSED * probability(0.5, bands, rows) >= 0.99 > PASSED * probability(0.5, bands - 1, rows)
        assert probability(0.05, bands, rows) <= 0.001


@pytest.mark.parametrize(
    ("recalls", "shares"),
    [
        ([(0.99, 0.8)], [(0.001, 0.3)]),
        ([(0.9, 0.7), (0.9999, 0.9)], [(0.05, 0.4), (1e-6, 0.1)]),
        ([(0.95, 0.5)], [(0.94, 0.49)]),
    ],
)
def test_no_choice_is_left_out(recalls, shares):
    found = ask(recall=[f"{p}@{s}" for p, s in recalls], candidates=[f"{p}@{s}" for p, s in shares])

    expected = []
    for rows in range(1, 129):
        fitting = (
            bands
            for bands in range(1, min(4096, MAX_SIGNATURE_SIZE // rows) + 1)
            if all(PASSED * probability(s, bands, rows) >= p for p, s in recalls)
        )
        bands = next(fitting, None)
        if bands and all(probability(s, bands, rows) <= p for p, s in shares):
            expected.append((bands, rows))
    # More rows need more bands, and leave fewer candidates: none of these betters another.
    assert pairs(found) == expected


def test_limits_are_kept():
    found = ask(recall=["0.99@0.8"], max_signature_bytes=500, max_candidates_per_doc=0.4)

    assert found["choices"]
    assert all(choice["signature_bytes"] <= 500 for choice in found["choices"])
    assert all(choice["candidates"] <= 0.4 for choice in found["choices"])
    assert len(pairs(ask(recall=["0.99@0.8"]))) > len(found["choices"])


@pytest.mark.parametrize(
    ("wishes", "named"),
    [
        (
            {"recall": ["0.99@0.3"], "candidates": ["0.001@0.5"]},
            ["--recall 0.99@0.3 and --candidates 0.001@0.5", "rises"],
        ),
        ({"recall": ["0.99@0.8"], "candidates": ["0.001@0.79"]}, ["--recall 0.99@0.8 and --candidates 0.001@0.79"]),
        ({"recall": ["0.9@0.8"], "max_signature_bytes": 8}, ["--max-signature-bytes 8"]),
        ({"recall": ["0.99@0.8"], "max_candidates_per_doc": 0.01}, ["--max-candidates-per-doc 0.01"]),
        (
            {"recall": ["0.99@0.8", "0.99@0.5"], "candidates": ["0.01@0.45"]},
            ["--recall 0.99@0.5 and --candidates 0.01@0.45"],
        ),
    ],
)
def test_targets_that_exclude_each_other_are_named_with_the_nearest_that_do_not(wishes, named):
    with pytest.raises(ConfigError) as refusal:
        ask(**wishes)

    message = str(refusal.value)
    assert "\n" not in message
    for part in named:
        assert part in message
    offers = message.partition("nearest: ")[2].split(" or ")
    assert offers
    for offer in offers:
        option, value = offer.split()
        name = option.removeprefix("--").replace("-", "_")
        eased = dict(wishes)
        if name in {"recall", "candidates"}:
            similarity = value.partition("@")[2]
            eased[name] = [value if each.endswith(f"@{similarity}") else each for each in wishes[name]]
        else:
            eased[name] = float(value)
        assert ask(**eased)["choices"], offer


def test_a_conflict_of_two_does_not_blame_a_third():
    with pytest.raises(ConfigError) as refusal:
        ask(recall=["0.99@0.8"], candidates=["0.001@0.79"], max_signature_bytes=10**6)

    assert "--max-signature-bytes" not in str(refusal.value)


def test_costs_follow_from_the_similarities():
    one = cost(Banding(21, 6), 0.8, corpus((1.0, 0.2), (0.5, 4)), Rates())

    assert one.signature_bytes == 21 * 8 + 126
    assert one.candidates == pytest.approx(0.1 + 2 * probability(0.5, 21, 6))
    assert one.bucket_pairs == pytest.approx(0.1 * 21 + 2 * 21 / 64)
    assert 0.1 < one.compared < 0.102
    assert one.moved_bytes > 16 * 21 + 16 * one.bucket_pairs


def test_a_stricter_estimate_loses_more(monkeypatch):
    costs = []
    for sigmas in (0, 2, 4):
        monkeypatch.setattr("dedup.plan.choice.SIGMAS", sigmas)
        costs.append(cost(Banding(21, 6), 0.8, corpus((0.6, 1)), Rates()))

    assert costs[0].lost > 0.3 > costs[1].lost > 1e-3 > costs[2].lost
    assert costs[0].compared < costs[1].compared < costs[2].compared < costs[2].candidates


@pytest.mark.parametrize(
    "wrong",
    [
        {"recall": ["0.99"]}, {"recall": ["99@0.8"]}, {"recall": ["0.9@1.1"]}, {"recall": ["nan@0.5"]},
        {"recall": ["0.9@0"]}, {"candidates": ["0.1@0.2"]}, {"max_signature_bytes": 100}, {"check": "21"},
        {"check": "0x6"}, {"check": "9999x2"}, {"threshold": 0.0}, {"threshold": 1.5},
        {"documents": -1}, {"duplication": 1.0}, {"efficiency": 0.0}, {"efficiency": 1e-320}, {"mean_bytes": 1e-320},
        {"documents": 10**300}, {"mean_bytes": 1e300}, {"id_bytes": 1e300}, {"mean_tokens": 1e300},
        {"price_per_core_hour": float("nan")}, {"sample_documents": 1}, {"executors": 0}, {"mean_tokens": float("inf")},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match="must be"):
        ask(**wrong)


def test_a_wish_of_which_nothing_can_be_met_offers_no_other():
    with pytest.raises(ConfigError, match="nearest: none"):
        ask(recall=["0.5@1e-310"])


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"sample_of": 10_000}, r"--sample-of needs --sample, .* \(got 10000\)"),
        ({"sample_documents": 50}, r"--sample-documents needs --sample, .* \(got 50\)"),
        ({"efficiency": 0.9}, r"--efficiency needs --documents, .* \(got 0\.9\)"),
        ({"price_per_core_hour": 0.05}, r"--price-per-core-hour needs --documents, .* \(got 0\.05\)"),
        (
            {"sample": "a.parquet", "duplication": 0.0},
            r"--duplication must be left out with --sample, .* \(got 0\)",
        ),
        (
            {"sample": "a.parquet", "mean_tokens": 300.0},
            r"--mean-tokens must be left out with --sample, .* \(got 300\)",
        ),
        (
            {"sample": "a.parquet", "mean_bytes": 2000.0},
            r"--mean-bytes must be left out with --sample, .* \(got 2000\)",
        ),
    ],
)
def test_a_number_that_nothing_would_read_is_refused(question, words):
    with pytest.raises(ConfigError, match=words):
        ask(**question)


@pytest.mark.parametrize("wishes", [{}, {"documents": 1000}, {"recall": ["0.99@0.8"]}])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("mode=exact", r'mode must be "lsh" to be planned \(got "exact"\)'),
        ("layers=exact,lines", r"layers must name near to be planned \(got exact,lines\)"),
    ],
)
def test_a_run_that_makes_no_bands_is_refused(setting, words, wishes):
    with pytest.raises(ConfigError, match=words):
        answer(PlanQuestion(config=load_config(None, None, [setting]), **wishes))


def test_settings_that_remove_others_than_the_plan_are_named():
    settings = ["cluster.linkage=representative", "keep.copies=2"]
    plain, other = (
        answer(PlanQuestion(config=load_config(None, None, given), documents=1000)) for given in ([], settings)
    )

    assert [found["capacity"]["left_out"] for found in (plain, other)] == [[], ["cluster.linkage", "keep.copies"]]
    assert "Not in this plan" not in to_text(plain)
    assert "Not in this plan: cluster.linkage, keep.copies. All but one of each component are removed." in to_text(
        other
    )


def test_the_threshold_is_the_least_similarity_to_be_found_unless_given():
    assert ask(recall=["0.99@0.8", "0.9@0.7"])["settings"]["threshold"] == 0.7
    assert ask(recall=["0.99@0.8"], threshold=0.9)["settings"]["threshold"] == 0.9
    assert ask()["settings"]["threshold"] == 0.8


def test_datasketch_is_put_beside_at_equal_length():
    found = ask(recall=["0.99@0.8"], candidates=["0.001@0.3"])
    other = found["datasketch"]
    best = next(c for c in found["choices"] if (c["bands"], c["rows"]) == tuple(found["best"].values()))

    assert other["signature_size"] <= best["signature_size"]
    assert [target["met"] for target in other["targets"]] == [False, True]


@pytest.mark.parametrize(
    "threshold", [0.3, 0.5, 0.8, 0.95, *(pytest.param(each, marks=pytest.mark.full) for each in OTHERS)]
)
@pytest.mark.parametrize("recall", [0.9, 0.998])
def test_auto_is_what_the_solver_finds_cheapest_in_the_corpus_it_is_chosen_for(threshold, recall):
    wishes = Wishes(targets=[Target(option="--recall", share=recall, similarity=threshold)])
    choices = solve(wishes, threshold, corpus(*banding.RELATED), Rates())
    found = banding.choose(threshold, recall, sigmas=4)

    # What an exact comparison costs depends on the length of texts, which no setting tells.
    rates = Rates()
    spent = {
        (each.bands, each.rows): rates.row * each.signature_size
        + rates.band * each.bands
        + rates.pair * each.bucket_pairs
        for each in choices
    }
    assert found == min(spent, key=lambda pair: spent[pair])


def test_a_recall_counts_what_the_estimate_filter_drops(monkeypatch):
    wishes = Wishes(targets=[Target(option="--recall", share=0.998, similarity=each) for each in (0.7, 0.8, 0.9)])
    monkeypatch.setattr("dedup.plan.wishes.SIGMAS", 2)
    dropped = float(ndtr(-2))
    judged = check(Banding(21, 6), wishes, 0.8, corpus(*banding.RELATED))

    # Below the threshold a pair is found once it is a candidate.
    expected = [probability(0.7, 21, 6), *(probability(each, 21, 6) * (1 - dropped) for each in (0.8, 0.9))]
    assert [target["value"] for target in judged] == pytest.approx(expected)
    assert [target["met"] for target in judged] == [False, False, False]
    # Of all pairs at the threshold none is dropped that the bound does not count.
    found = compared(np.array([0.8, 0.9]), 21, 6, 0.8, 2)
    assert (found >= expected[1:]).all()
