"""Which measurements are beyond their limits, and what is said of them."""

import pytest

from dedup.report.alerts import find_breaches, refuse, to_sentence
from dedup.report.baseline import DRIFT
from dedup.settings.alerts import Alerts
from dedup.settings.files import load_config, to_dict
from tests.reports import HOSTILE, LABELED, make_hostile_report, make_near, make_report

SOURCES = {"web": {"documents": 100, "kept": 40}, "books": {"documents": 10, "kept": 10}}
# Of the made-up report.
VALUES = {
    "removal_rate": 1_900 / 12_000,
    "empty_rate": 24 / 12_000,
    "candidate_pairs_per_doc": 5_970 / 12_000,
    "bucket_size_p99": 40,
    "verify_drop_rate": (5_970 - 2_850) / 5_970,
    "signature_bytes": 3_700_000,
    "index_bytes": 16 * 232_596,
}


def breaches(*limits, **facts):
    return make_report(*(f"alerts.{limit}" for limit in limits), **facts)["alerts"]


def test_by_default_nothing_is_limited():
    assert breaches() == []
    assert set(to_dict(load_config())["alerts"].values()) == {"warn", ""}


@pytest.mark.parametrize("metric", VALUES)
def test_a_limit_is_passed_beyond_it_and_not_at_it(metric):
    value = VALUES[metric]

    assert breaches(f"{metric}_above={value}") == []
    [breach] = breaches(f"{metric}_above={value * 0.999}")
    assert (breach["metric"], breach["value"], breach["label"]) == (metric, value, "")


def test_a_rate_can_be_too_low():
    assert breaches("removal_rate_below=0.158") == []
    [breach] = breaches("removal_rate_below=0.16")
    assert to_sentence(breach) == "removal_rate is 0.158333, below its limit of 0.16"


def test_every_limit_is_of_something_that_is_measured():
    limits = {name: 0 if name.endswith("_above") else 1 for name in to_dict(load_config())["alerts"]}
    limits.pop("on_breach")
    report = make_report(
        survival_by_source=SOURCES, near=make_near(labeled=LABELED), baseline=make_report() | {"output": ""}
    )
    report |= dict.fromkeys(("removal_rate_change", *DRIFT), 0.01)

    found = find_breaches(report, limits)

    assert {breach["alert"] for breach in found} == limits.keys()
    assert all(breach["value"] is not None for breach in found)


def test_the_removal_rate_may_not_leave_that_of_the_baseline_either_way():
    for rate in (0.1, 0.2):
        earlier = make_report() | {"output": "earlier", "removal_rate": rate}
        assert breaches("removal_rate_change_above=0.07", baseline=earlier) == []
        [breach] = breaches("removal_rate_change_above=0.04", baseline=earlier)
        assert breach["value"] == pytest.approx(abs(1_900 / 12_000 - rate))


@pytest.mark.parametrize(
    "limit", ["removal_rate_change_above", "recall_on_labeled_set_below", "survival_by_source_below"]
)
def test_what_is_unknown_does_not_pass(limit):
    [breach] = breaches(f"{limit}=0.5")

    assert breach["value"] is None
    assert to_sentence(breach) == f"{breach['metric']} is unknown and has a limit of 0.5"


def test_sources_and_stages_are_held_one_by_one_and_named():
    [breach] = breaches("survival_by_source_below=0.5", survival_by_source=SOURCES)
    assert to_sentence(breach) == "survival_by_source of 'web' is 0.4, below its limit of 0.5"
    [breach] = breaches("stage_seconds_above=4")
    assert to_sentence(breach) == "stage_seconds of 'signatures' is 4.1, above its limit of 4"


def test_the_error_names_all_in_one_line_that_commands_no_terminal():
    limits = ("alerts.survival_by_source_below=0.5", "alerts.index_bytes_above=1000")
    report = make_hostile_report(*limits)

    message = str(refuse(report["alerts"], "OUT.partial/report"))

    assert "index_bytes is 3,721,536, above its limit of 1,000" in message
    assert "OUT.partial/report/report.html" in message
    assert repr(HOSTILE) in message
    assert message.isprintable()


def test_limits_are_numbers_or_empty():
    assert Alerts(removal_rate_above=1).removal_rate_above == 1.0
    assert load_config(None, None, ["alerts.removal_rate_above="]).alerts.removal_rate_above == ""
