"""Faults that the tests must find: the package with one invariant broken, one fault at a time.

scripts/mutations [NAME ...] [--all] breaks a copy of the checkout and runs the tests named beside each fault; with
--all the whole suite where these let it pass. The suite itself only checks that every text stands where it is said to.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LEFT = (".venv", "jars", "dist", "demo-output", "__pycache__", ".hypothesis", ".*_cache")
"""What is not copied: packages, which the copy shares, and what earlier runs have made."""
WHOLE = ("tests", "--ignore", "tests/test_mutations.py")
COMPILED = ("kernels/loops/", "kernels/hashing.py")
"""What compiled code is made of: Numba looks for changes in the file of a function, but not in those it calls."""
DEADLINE_SECONDS = 600
"""A fault can also end in a search that never ends."""


class Mutation(NamedTuple):
    """A fault, and what finds it."""

    name: str
    invariant: str
    """What is broken, as it holds."""
    file: str
    """Below dedup/."""
    old: str
    """Stands there once."""
    new: str
    tests: tuple[str, ...]
    """Files below tests/, or tests of one."""


MEMORY = "engine/test_memory.py::test_finds_what_plain_python_finds"
NEAR = "layers/test_near.py::test_finds_what_plain_python_finds"
GUARANTEES = "test_guarantees.py"

MUTATIONS = (
    # Texts and hashes.
    Mutation(
        "nfkc",
        "Texts are compared in NFKC.",
        "kernels/text/marks.py",
        'unicodedata.normalize("NFKC", sort_marks(text))',
        'unicodedata.normalize("NFC", sort_marks(text))',
        ("kernels/text/test_marks.py",),
    ),
    Mutation(
        "mark-runs",
        "Marks are put into canonical order within their run.",
        "kernels/text/marks.py",
        "np.lexsort((orders[places], np.repeat(np.arange(sizes.size), sizes)))",
        "np.argsort(orders[places], kind='stable')",
        ("kernels/text/test_marks.py",),
    ),
    Mutation(
        "mark-decompositions",
        "Marks that normalising takes apart are sorted by their parts.",
        "kernels/text/marks.py",
        "    for char, form in _decompositions().items():\n        text = text.replace(char, form)",
        "",
        ("kernels/text/test_marks.py",),
    ),
    Mutation(
        "cut-tokens",
        "Tokens that are cut out of texts are those that are hashed.",
        "kernels/loops/tokens.py",
        "ends[count] = position\n                count += 1\n                inside = False",
        "ends[count] = position\n                count += 1",
        ("kernels/text/test_unicode_words.py",),
    ),
    Mutation(
        "shingle-length",
        "The hash of a shingle says how many tokens it has.",
        "kernels/loops/sets.py",
        "written[:] = np.uint64(size) * GOLDEN",
        "written[:] = np.uint64(0)",
        ("kernels/test_vectors.py",),
    ),
    Mutation(
        "signature-bits",
        "Two documents agree in a row of a signature with probability equal to their similarity.",
        "kernels/loops/sets.py",
        "lowest = min(lowest, mix(shingles[position] ^ seed) & LOW)",
        "lowest = mix(shingles[position] ^ seed) & LOW",
        ("kernels/sets/test_minhash.py",),
    ),
    Mutation(
        "band-key-rows",
        "A band key depends on the order of its rows and on the band.",
        "kernels/loops/sets.py",
        "summed += mix((signature[row] & LOW) + salts[row])",
        "summed += mix((signature[row] & LOW) + salts[0])",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "loop",
        "Compiled loops and their oracle in NumPy give the same bits.",
        "kernels/loops/templates.py",
        "elif frequency <= most:",
        "elif frequency < most:",
        ("kernels/test_loops.py",),
    ),
    Mutation(
        "estimate-chance",
        "The estimate from low bits is corrected for chance.",
        "kernels/sets/minhash.py",
        "(agreement - chance) / (1 - chance)",
        "agreement",
        ("kernels/sets/test_minhash.py",),
    ),
    Mutation(
        "packed-bits",
        "A packed signature has the lowest bits of its rows in the order of the specification.",
        "kernels/sets/minhash.py",
        'kept.reshape(len(low), -1), axis=1, bitorder="little"',
        "kept.reshape(len(low), -1), axis=1",
        ("kernels/test_vectors.py",),
    ),
    Mutation(
        "packed-rows",
        "Rows of packed signatures agree if all of their bits do.",
        "kernels/sets/minhash.py",
        "unlike.any(axis=2)",
        "unlike.all(axis=2)",
        ("kernels/sets/test_minhash.py",),
    ),
    Mutation(
        "narrow-error",
        "The standard error of an estimate from low bits counts rows that agree by chance.",
        "kernels/curve.py",
        "np.sqrt(agreeing * (1 - agreeing) / size) / (1 - chance)",
        "np.sqrt(agreeing * (1 - agreeing) / size)",
        ("kernels/test_curve.py",),
    ),
    Mutation(
        "torn-set",
        "The last element of a set may lack its line feed.",
        "kernels/text/set_elements.py",
        "ends = np.concatenate((torn, lines))",
        "torn, ends = torn[:0], lines",
        ("test_sets.py",),
    ),
    Mutation(
        "columns-apart",
        "No shingle of a column is one of another.",
        "kernels/sets/shingles.py",
        "(1 + np.cumsum(weights) - weights)[columns[rows]] + rank(rows)",
        "1 + rank(rows)",
        ("test_sets.py", "kernels/test_vectors.py"),
    ),
    Mutation(
        "column-weights",
        "A shingle of a column of weight w is w elements.",
        "kernels/sets/shingles.py",
        "rows = np.repeat(np.arange(values.size), weights[columns])",
        "rows = np.arange(values.size)",
        ("test_sets.py", "kernels/test_vectors.py"),
    ),
    Mutation(
        "order-of-parts",
        "Rows of a document are put together in the order of the files.",
        "layers/near/layer.py",
        'order=["file", "row"], work=work',
        'order=["row"], work=work',
        ("test_parts.py",),
    ),
    # Candidates.
    Mutation(
        "bucket-rows",
        "Equal rows are one document, which shares no bucket with itself.",
        "kernels/sets/lsh.py",
        "distinct = mark_firsts(keys, members)",
        "distinct = np.ones(keys.size, dtype=bool)",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "bucket-pairs",
        "A bucket below the cap gives all its pairs.",
        "kernels/sets/lsh.py",
        "np.where(steps[bucket], steps[bucket], size - 1 - position)",
        "np.where(steps[bucket], steps[bucket], np.minimum(size - 1 - position, 2))",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "cap-partners",
        "Each member of a bucket over the cap keeps partners however large the bucket is.",
        "kernels/sets/lsh.py",
        "np.clip(max_bucket**2 // (2 * sizes), min(FOLLOWERS, max_bucket // 2), max_bucket // 2)",
        "np.clip(max_bucket**2 // (2 * sizes), 0, max_bucket // 2)",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "cap-circle",
        "Whom the cap lets a document meet follows from ids and keys, not from the order of rows.",
        "kernels/sets/lsh.py",
        "mix(named.view(np.uint64) ^ keys[bucket])",
        "mix(np.arange(members.size, dtype=np.uint64) ^ keys[bucket])",
        ("kernels/sets/test_lsh.py", "kernels/sets/test_pairs.py"),
    ),
    Mutation(
        "cap-sample",
        "What a cap costs is estimated from pairs that were not compared.",
        "kernels/sets/lsh.py",
        "+ followers[bucket] + 1\n",
        "+ 1\n",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "cap-lost",
        "A similar pair of which no edge knows a document is counted as lost.",
        "layers/near/labels.py",
        "one is None or one != other",
        "one != other",
        (NEAR,),
    ),
    Mutation(
        "cap-bound",
        "The share that a cap loses is bounded, not guessed: none in a sample of ten does not say none in all.",
        "kernels/confidence.py",
        "float(betaincinv(count + 1, total - count, CONFIDENCE))",
        "count / total",
        ("test_report.py",),
    ),
    Mutation(
        "cap-thinned",
        "What verifying a part of the pairs that may be lost leaves open is in the bound.",
        "report/build.py",
        "min(bound_share(found.lost, found.drawn) / verified_share(found.possible), 1.0)",
        "bound_share(found.lost, found.drawn)",
        ("test_report.py",),
    ),
    Mutation(
        "cap-chance",
        "Pairs that may be lost are verified with one chance, whatever their ids.",
        "kernels/sets/lsh.py",
        "hashes = mix(mix(left.view(np.uint64)) ^ right.view(np.uint64) ^ np.uint64(KEY_SEED))",
        "hashes = mix(left.view(np.uint64) ^ np.uint64(KEY_SEED))",
        ("kernels/sets/test_lsh.py",),
    ),
    Mutation(
        "length-symmetry",
        "Whether sizes allow a threshold does not depend on which document is left.",
        "kernels/sets/filters.py",
        "np.minimum(left_sizes, right_sizes), np.maximum(left_sizes, right_sizes)",
        "left_sizes, right_sizes",
        ("kernels/sets/test_filters.py",),
    ),
    Mutation(
        "length-rounding",
        "No pair at the threshold is lost to the error of a product.",
        "kernels/sets/filters.py",
        "threshold * greatest * (1 - 1e-12)",
        "threshold * greatest",
        ("kernels/sets/test_filters.py",),
    ),
    Mutation(
        "estimate-floor",
        "The estimate drops pairs below the threshold, so many errors below it.",
        "kernels/curve.py",
        "below < ndtr(-sigmas)",
        "below < ndtr(sigmas)",
        ("kernels/test_curve.py",),
    ),
    Mutation(
        "prefix-complete",
        "Exact mode finds every pair at the threshold.",
        "kernels/sets/containment.py",
        " + 1 - (sizes - shared)",
        " - (sizes - shared)",
        (MEMORY,),
    ),
    Mutation(
        "prefix-rounding",
        "No prefix is shortened by the error of a product.",
        "kernels/sets/exact.py",
        "np.ceil(threshold * sizes - ROUNDING)",
        "np.ceil(threshold * sizes)",
        ("layers/test_near.py::test_a_product_a_little_above_a_whole_number_does_not_shorten_a_prefix",),
    ),
    Mutation(
        "cells",
        "A pair that comes from several buckets is compared once.",
        "engine/exchange.py",
        'left, right = distinct(*(pairs[name].to_numpy() for name in ("left_id", "right_id")))',
        'left, right = (pairs[name].to_numpy() for name in ("left_id", "right_id"))',
        ("engine/test_exchange.py",),
    ),
    # Verification.
    Mutation(
        "exact",
        "The similarity of an edge is the share of shingles in common, of all that either has.",
        "kernels/sets/jaccard.py",
        "union = sizes[left] + sizes[right] - shared",
        "union = np.maximum(sizes[left], sizes[right])",
        ("kernels/sets/test_jaccard.py",),
    ),
    Mutation(
        "inclusive",
        "A pair at the threshold is an edge.",
        "layers/near/comparison.py",
        "chosen = exact >= threshold",
        "chosen = exact > threshold",
        (NEAR,),
    ),
    Mutation(
        "near-misses",
        "Near misses lie below the threshold.",
        "kernels/sets/jaccard.py",
        "(similarities < threshold)",
        "(similarities <= threshold)",
        ("kernels/sets/test_jaccard.py",),
    ),
    Mutation(
        "empty",
        "Documents without a token are duplicates of none.",
        "layers/near/buckets.py",
        'yield batch.select(DIGESTS.names).filter(pc.greater(batch["size"], 0))',
        "yield batch.select(DIGESTS.names)",
        (NEAR,),
    ),
    Mutation(
        "digests",
        "Sets are equal where all 128 bits of their digests are.",
        "kernels/sets/identical.py",
        "first = mark_firsts(high, low)",
        "first = mark_firsts(high)",
        ("kernels/sets/test_identical.py",),
    ),
    # Ids.
    Mutation(
        "collision-memory",
        "Two ids of one hash are never taken for one document.",
        "engine/document_ids.py",
        "if len(group) > 1]",
        "if len(group) > 2]",
        ("engine/test_document_ids.py",),
    ),
    Mutation(
        "collision-spark",
        "Two ids of one hash are never taken for one document on Spark, too.",
        "engine/corpus.py",
        'F.size("ids") > 1',
        'F.size("ids") > 2',
        ("engine/test_corpus.py::test_ids_of_one_hash_get_document_ids_of_their_own",),
    ),
    Mutation(
        "null-ids",
        "A document without an id ends the job.",
        "engine/memory.py",
        "if ids.null_count:",
        "if ids.null_count > 1:",
        ("engine/test_document_ids.py",),
    ),
    Mutation(
        "row-digest",
        "Rows without an id are one document only where all their values are equal.",
        "files/digest.py",
        "members = [tag + value for tag, value in zip(tags, values, strict=True) if value is not NULL]",
        "members = [value for value in values if value is not NULL]",
        ("files/test_source.py::test_without_an_id_column_equal_rows_have_one_id_in_every_format",),
    ),
    # Components and the one kept.
    Mutation(
        "component-least",
        "A component is named by its least document.",
        "kernels/components.py",
        "ids[firsts][labels]",
        "ids[firsts][labels[::-1]]",
        ("kernels/test_components.py",),
    ),
    Mutation(
        "election",
        "Of a component the document least in the policy's rank stays.",
        "kernels/representatives.py",
        "np.lexsort((ranks, component_ids))",
        "np.lexsort((-ranks, component_ids))",
        ("kernels/test_representatives.py",),
    ),
    Mutation(
        "policy",
        "smallest_id keeps the least of the user's own ids.",
        "kernels/election.py",
        'pc.rank(rows["id"], tiebreaker="dense").to_numpy().astype(np.int64)',
        "np.arange(rows.num_rows)",
        (MEMORY,),
    ),
    Mutation(
        "direct-similarity",
        "A removal says the exact similarity to the one kept, also where no edge joins the two.",
        "layers/near/election.py",
        "similarities = np.where(kept.stays, 1.0, look_up(left, right, every))",
        "similarities = np.nan_to_num(np.where(kept.stays, 1.0, look_up(left, right, every)), nan=policy.threshold)",
        (NEAR,),
    ),
    Mutation(
        "per-source",
        "A source removes no more documents of others than its limit.",
        "layers/near/sources.py",
        "batch.filter(pa.array(before >= most))",
        "batch.filter(pa.array(before > most))",
        ("engine/test_limits.py",),
    ),
    Mutation(
        "per-source-own",
        "A source's limit does not count its own documents.",
        "kernels/source_limits.py",
        "free = free[sources[free] != sources[chosen[free]]]",
        "free = free.copy()",
        (MEMORY,),
    ),
    # The output.
    Mutation(
        "equal-rows",
        "Of equal rows one stays.",
        "output/row_decisions.py",
        'batch.filter(pa.array(~mark_firsts(batch["doc_id"].to_numpy())))',
        "batch",
        (GUARANTEES,),
    ),
    Mutation(
        "equal-rows-of-a-table",
        "Of equal rows of a table one stays, too.",
        "output/row_output.py",
        'F.col(f"{name}_number") >= F.col(f"{name}_from")',
        'F.col(f"{name}_number") > F.col(f"{name}_from")',
        ("output/test_row_output.py",),
    ),
    Mutation(
        "nothing-lost",
        "Rows kept and rows removed are counted against the input before anything is published.",
        "output/result_tables.py",
        "if rows.kept != expected or rows.removed not in {removed, None} or not is_named:",
        "if rows.kept > found.rows:",
        (GUARANTEES,),
    ),
    Mutation(
        "last-record",
        "What stands behind the last record that goes stays, bytes as they were.",
        "files/formats/records.py",
        "*parts, self.data[begin:]",
        "*parts",
        ("files/test_sink.py",),
    ),
    Mutation(
        "csv-header",
        "Every file of CSV keeps its header.",
        "files/formats/records.py",
        "header = int((block.rows[:1] < 0).sum())",
        "header = 0",
        ("files/test_sink.py",),
    ),
    Mutation(
        "csv-returns",
        "A carriage return with its line feed ends one record of CSV.",
        "files/formats/csv.py",
        "is_end = (values[stops] == NEWLINE) | (following != NEWLINE)",
        "is_end = np.ones(len(stops), dtype=bool)",
        ("files/test_sink.py::test_kept_and_removed_records_are_the_bytes_of_the_input", "files/test_source.py"),
    ),
    Mutation(
        "parquet-schema",
        "A parquet file keeps its schema, that of Arrow only where it has one.",
        "files/formats/parquet.py",
        'b"ARROW:schema" in (metadata.metadata or {})',
        "True",
        ("files/test_sink.py::test_files_of_other_writers_come_through_unchanged",),
    ),
    Mutation(
        "row-groups",
        "A parquet file keeps its row groups.",
        "files/formats/parquet.py",
        "row_group_size=max(rows.num_rows, 1)",
        "row_group_size=2",
        ("files/test_sink.py",),
    ),
    Mutation(
        "changed-file",
        "A file that changed since it was read is not written.",
        "files/sink.py",
        "if entry is None or (entry.size, entry.changed) != (file.size, file.changed):",
        "if entry is None:",
        ("files/test_storage.py",),
    ),
    Mutation(
        "changed-input",
        "An input that changed while it was read is not published.",
        "run/opening.py",
        "if list_input(job).fingerprint != listing.fingerprint:",
        "if not listing.files:",
        (GUARANTEES,),
    ),
    Mutation(
        "quarantine",
        "A record that is none goes to quarantine and nowhere else.",
        "files/formats/records.py",
        'dict.fromkeys([*leaving, *aside], b"")',
        'dict.fromkeys(leaving, b"")',
        ("test_bad_input.py::test_malformed_json_is_set_aside_with_its_file",),
    ),
    Mutation(
        "foreign-table",
        "A table that dedup did not make is never replaced.",
        "run/catalog.py",
        'if owner == "" or not is_free:',
        "if not is_free:",
        ("test_output_table.py::test_a_table_of_others_is_never_replaced",),
    ),
    # One run on an output, its work, and its publication.
    Mutation(
        "lock",
        "A run whose lock beats keeps others away.",
        "run/lock.py",
        "if now and found and now != found:",
        "if not now:",
        ("test_lock.py",),
    ),
    Mutation(
        "lock-lost",
        "A run that lost its lock publishes nothing.",
        "run/workspace.py",
        "        self._mark(self.result)\n        self._lock.check()\n",
        "        self._mark(self.result)\n",
        (GUARANTEES,),
    ),
    Mutation(
        "marks",
        "No folder without the job's mark is moved or deleted.",
        "run/workspace.py",
        'if self.storage.exists(folder) and not self.storage.exists(f"{folder}/{MARK}") and',
        "if not folder and",
        (GUARANTEES,),
    ),
    Mutation(
        "mark-last",
        "The mark of a folder is the last of it to be deleted.",
        "run/workspace.py",
        "if entry.path != MARK:",
        "if entry.path:",
        ("test_ownership.py::test_a_folder_is_deleted_mark_last",),
    ),
    Mutation(
        "apart",
        "The lock, too, lies apart from every input.",
        "run/apart.py",
        '("", ".partial", ".lock", ".replaced")',
        '("", ".partial", ".replaced")',
        ("test_apart.py",),
    ),
    Mutation(
        "store-apart",
        "A store lies apart from what is read.",
        "run/apart.py",
        '    check_apart(inputs, store, option=option, suffixes=("",))\n',
        "",
        ("test_apart.py",),
    ),
    Mutation(
        "store-outside",
        "No output is written into a store.",
        "run/workspace.py",
        "        check_outside(self._locks, self.output)\n",
        "",
        ("test_ownership.py::test_an_output_in_a_store_is_refused_and_nothing_is_written",),
    ),
    Mutation(
        "link",
        "A link to an output stays when the output is replaced.",
        "run/workspace.py",
        "place = follow(output)",
        "place = output",
        ("test_ownership.py::test_a_link_to_an_output_stays_and_what_it_leads_to_is_replaced",),
    ),
    Mutation(
        "row-shares",
        "Splits that share a row group have each of its rows once.",
        "files/formats/columnar.py",
        "for each in (number, number + 1))",
        "for each in (number, number + 2))",
        ("files/test_source.py",),
    ),
    Mutation(
        "names-utf8",
        "A name that is not UTF-8 ends a run with a line.",
        "files/formats/columnar.py",
        "            _list_names(column)\n",
        "            del column\n",
        ("test_bad_input.py::test_what_is_no_utf8_ends_the_job_with_a_line_that_names_it",),
    ),
    Mutation(
        "resume-settings",
        "An unfinished run of other settings is refused.",
        "run/workspace.py",
        "if differing and not overwrite:",
        "if not differing and not overwrite and not earlier:",
        ("test_storage.py::test_another_run_is_refused_and_named_until_it_may_overwrite",),
    ),
    Mutation(
        "resume-key",
        "An unfinished run of another hash key is refused.",
        "run/execution.py",
        '"hash key": spec.key, ',
        "",
        (GUARANTEES,),
    ),
    Mutation(
        "resume-limits",
        "Limits of alerts may change between tries.",
        "run/execution.py",
        'name.startswith(("alerts.", "lineage."))',
        'name.startswith("lineage.")',
        (GUARANTEES,),
    ),
    Mutation(
        "resume-result",
        "Rows of a result cut short are not published.",
        "run/workspace.py",
        "            self._drop_results()\n",
        "            pass\n",
        ("test_storage.py::test_an_equal_run_goes_on_where_the_other_stopped",),
    ),
    Mutation(
        "damaged-table",
        "A table of an earlier try that lacks rows is made again.",
        "run/tables.py",
        'return int(observation.get["rows"]) == rows',
        'return int(observation.get["rows"]) <= rows',
        ("test_storage.py::test_a_damaged_table_is_made_again",),
    ),
    Mutation(
        "publication-last",
        "_SUCCESS comes last: an output with it is whole.",
        "run/workspace.py",
        "        self.storage.rename(self.result, self.output)\n",
        '        self.storage.write_text(f"{self.result}/_SUCCESS", "")\n'
        "        self.storage.rename(self.result, self.output)\n",
        (GUARANTEES,),
    ),
    Mutation(
        "replaced-last",
        "An output that is replaced is deleted once the new one is whole.",
        "run/workspace.py",
        "            self.storage.rename(self.output, self._replaced)\n",
        "            self._delete(self.output)\n",
        (GUARANTEES,),
    ),
    Mutation(
        "overwrite",
        "An existing output is not overwritten unasked.",
        "run/workspace.py",
        "and not (overwrite or cut_short or self._is_bare(self.output)):",
        "and not (overwrite or cut_short or True):",
        (GUARANTEES,),
    ),
    Mutation(
        "alerts-first",
        "A breach that is to fail the job publishes nothing.",
        "run/execution.py",
        "        if fails:",
        "        workspace.publish(files)\n        if fails:",
        (GUARANTEES,),
    ),
    # What is told.
    Mutation(
        "informing",
        "What only informs ends no run.",
        "informing.py",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        ("test_informing.py",),
    ),
    Mutation(
        "key-written",
        "The key of hashes is never written, only its fingerprint.",
        "settings/hashspec.py",
        "key=key_fingerprint(tokenizer.key)",
        'key=tokenizer.key.decode("latin-1")',
        (GUARANTEES,),
    ),
    Mutation(
        "key-file",
        "A key that others can read is refused.",
        "settings/contract.py",
        "if rights & 0o077:",
        "if rights & 0o007:",
        ("test_contract.py",),
    ),
    Mutation(
        "passwords",
        "The report holds no password of a URL.",
        "report/build.py",
        '"output": hide_secrets(output),',
        '"output": output,',
        ("test_report.py",),
    ),
    Mutation(
        "markup",
        "What comes from the corpus is text in the report, never markup.",
        "report/page.py",
        "select_autoescape(default=True)",
        "select_autoescape(default=False)",
        ("test_report.py",),
    ),
    Mutation(
        "report-sums",
        "Kept, identical and near are all documents of the report.",
        "report/build.py",
        '"identical": removed - elected.near - by_others,',
        '"identical": removed - elected.near - elected.distant,',
        (GUARANTEES,),
    ),
    Mutation(
        "alert-side",
        "A limit is passed beyond it and not at it.",
        "report/alerts.py",
        "sign * value > sign * limit",
        "sign * value >= sign * limit",
        ("test_alerts.py",),
    ),
    Mutation(
        "unknown-alert",
        "A measurement that is unknown and limited is a breach.",
        "report/alerts.py",
        "if value is None or sign * value",
        "if value is not None and sign * value",
        ("test_alerts.py",),
    ),
    Mutation(
        "dial-known-pairs",
        "What thresholds below the run's own remove is told on top of what it removes itself.",
        "kernels/removal_statistics.py",
        "[own[0] + each for each in further]",
        "[*further]",
        (MEMORY,),
    ),
    Mutation(
        "parted-chains",
        "Linkage by representative is tried on every component with a removal below the threshold.",
        "kernels/election.py",
        "~(similarities >= policy.threshold)",
        "similarities < policy.threshold",
        ("kernels/test_election.py",),
    ),
    Mutation(
        "doubtful-least",
        "The most doubtful removals are the least similar.",
        "kernels/removal_statistics.py",
        "np.lexsort((doc_ids[firsts], similarities[firsts]))",
        "np.lexsort((doc_ids[firsts], -similarities[firsts]))",
        (MEMORY,),
    ),
    Mutation(
        "components-whole",
        "A sample to evaluate holds whole components.",
        "evaluate/sample.py",
        "        sample = _add(corpus, sample, np.setdiff1d(asking, sample.doc_ids))",
        "        break",
        ("test_evaluation.py::test_components_come_along_whole",),
    ),
    Mutation(
        "explained-chain",
        "The chain that explains a removal is the strongest of the shortest.",
        "kernels/chains.py",
        "np.lexsort((tails[arcs], -reached, heads[arcs]))",
        "np.lexsort((tails[arcs], reached, heads[arcs]))",
        ("kernels/test_chains.py",),
    ),
    Mutation(
        "explained-change",
        "A recorded similarity that is not that of the texts is said.",
        "explain/explanation.py",
        "told != each.jaccard and",
        "told is None and",
        ("test_explain.py::test_a_changed_text_is_noticed",),
    ),
    # Settings and the plan.
    Mutation(
        "ranges",
        "The ends of a setting's range are allowed.",
        "settings/rules.py",
        "else self.low <= value)",
        "else self.low < value)",
        ("test_config.py",),
    ),
    Mutation(
        "curve",
        "The S-curve is that of bands of rows.",
        "kernels/curve.py",
        "bands * np.log1p(-(jaccard**rows))",
        "rows * np.log1p(-(jaccard**bands))",
        ("kernels/test_curve.py",),
    ),
    Mutation(
        "planned-estimate",
        "The plan counts the pairs that share a band and pass the estimate.",
        "plan/curve.py",
        "agree = similarities + (1 - similarities) * chance",
        "agree = similarities",
        ("plan/test_curve.py",),
    ),
    Mutation(
        "fits-memory",
        "The memory engine is chosen only where what it needs is at most half of what is free.",
        "run/start.py",
        "fits = need * SHARE <= free",
        "fits = need <= free",
        (GUARANTEES,),
    ),
    # Vectors.
    Mutation(
        "guards",
        "A pair that a guard parts is no edge, whatever its cosine.",
        "layers/semantic/verification.py",
        "told = np.where(parted, cosines - PARTED, cosines)",
        "told = cosines.copy()",
        ("layers/test_semantic.py",),
    ),
    Mutation(
        "copies-in-crowds",
        "Of copies of a text and a vector one stays, whichever pairs the cap leaves out.",
        "layers/semantic/semantic.py",
        "engine.select(read, *DIGESTS) if dropped else None",
        "None",
        ("layers/test_semantic.py::test_of_many_copies_one_stays_whichever_the_order_puts_first",),
    ),
    Mutation(
        "clearly-nearer",
        "An edge falls to a neighbour that contradicts it, unless that is clearly farther.",
        "layers/semantic/verification.py",
        "(farness[firsts] * NEARER <= farness)",
        "(farness[firsts] <= farness)",
        ("layers/test_semantic.py",),
    ),
    Mutation(
        "bounded-products",
        "No pair is left out by the products of some dimensions that those of all would find.",
        "kernels/vectors/products.py",
        "lengths = np.ceil(np.sqrt(",
        "lengths = np.floor(0.9 * np.sqrt(",
        ("kernels/vectors/test_products.py",),
    ),
    # Passages.
    Mutation(
        "passage-verified",
        "Nothing is cut whose tokens stand nowhere else.",
        "layers/cutting.py",
        " & (high == high[of]) & (low == low[of])",
        "",
        ("layers/test_passages.py",),
    ),
    Mutation(
        "passage-kept",
        "What is told to stay is not cut for another passage.",
        "kernels/loops/passages.py",
        "begin, end = max(begins[row], kept), covered",
        "begin, end = begins[row], covered",
        ("kernels/text/test_passages.py",),
    ),
    Mutation(
        "passage-winnowed",
        "Equal windows hold selected grams of a hash that occurs twice.",
        "kernels/loops/passages.py",
        "grams[last] == grams[least]",
        "grams[last] < grams[least]",
        ("kernels/text/test_passages.py",),
    ),
    Mutation(
        "passage-order",
        "A passage stays in the document that is first by the order.",
        "layers/passages.py",
        'order=["rank", "place"]',
        'order=["doc_id", "place"]',
        ("layers/test_passages.py",),
    ),
    Mutation(
        "sorting-groups",
        "Rows of equal keys come to one task, in whatever order they are wanted.",
        "engine/sorting.py",
        "_place(held[groups], count)",
        "_place(held[keys], count)",
        ("engine/test_sorting.py",),
    ),
    Mutation(
        "task-files",
        "A task that is tried again writes the same file of the output.",
        "engine/table.py",
        "else f'part-{number:05}'",
        "else uuid.uuid4().hex",
        ("engine/test_spark_rows.py",),
    ),
    Mutation(
        "passage-mark",
        "No cut parts a character from the marks on it.",
        "kernels/text/unicode_words.py",
        "begins[1:] &= points[:-1] != JOINER",
        "begins[1:] |= False",
        ("kernels/text/test_unicode_words.py",),
    ),
    # Layers.
    Mutation(
        "line-threshold",
        "A line is common if more documents have it than may.",
        "layers/lines.py",
        "settings.documents + 1",
        "settings.documents",
        ("layers/test_lines.py",),
    ),
    Mutation(
        "line-occurrences",
        "A line counts once for a document that has it twice.",
        "kernels/runs/counting.py",
        "mark_firsts(*columns)",
        "(mark_firsts(*columns) | True)",
        ("kernels/runs/test_counting.py", "layers/test_lines.py"),
    ),
    Mutation(
        "prompt-ends",
        "No run of tokens reaches from one document into the next.",
        "kernels/text/grams.py",
        "places + tried <= offsets[documents + 1]",
        "places + tried <= tokens.size",
        ("kernels/text/test_grams.py",),
    ),
    Mutation(
        "prompt-halves",
        "A run of tokens is known by all 128 bits of its hash.",
        "kernels/text/grams.py",
        "(known.high[tried] == high) & (known.low[tried] == low)",
        "(known.high[tried] == high)",
        ("kernels/text/test_grams.py",),
    ),
    Mutation(
        "prompt-common",
        "A document of common phrases alone is not removed.",
        "kernels/text/matches.py",
        "Span(begin, end, ())",
        "Span(begin, end, (0,))",
        ("layers/test_contamination.py",),
    ),
    Mutation(
        "first-profile",
        "A document is of the first profile whose condition holds.",
        "files/profile_filter.py",
        "in reversed([*enumerate(conditions)]):",
        "in enumerate(conditions):",
        ("test_profiles.py::test_a_run_is_the_separate_runs_of_its_profiles",),
    ),
    Mutation(
        "whole-condition",
        "All columns of a condition must hold.",
        "files/profile_filter.py",
        "holds &= pc.is_in(",
        "holds = pc.is_in(",
        ("test_profiles.py::test_all_columns_of_a_condition_must_hold",),
    ),
    Mutation(
        "profile-after-layer",
        "A layer sees the documents of its profile alone, whatever layers have removed before.",
        "engine/memory.py",
        "(files, rows, begins, ends), self.left.profile)",
        "(files, rows, begins, ends))",
        ("test_profiles.py::test_a_run_is_the_separate_runs_of_its_profiles",),
    ),
    Mutation(
        "prefix-of-contained",
        "A document is compared with all that hold one of enough of its shingles.",
        "kernels/sets/containment.py",
        "taken = sizes - least_shared(sizes, threshold) + 1 -",
        "taken = sizes - least_shared(sizes, threshold) -",
        ("layers/test_containment.py",),
    ),
    Mutation(
        "contained-in-gone",
        "No document goes in favour of one that is gone.",
        "kernels/sets/containment.py",
        "if stays[one] and stays[other] and not stay[one]:",
        "if stays[one] and not stay[one]:",
        ("layers/test_containment.py", "kernels/sets/test_containment.py"),
    ),
    Mutation(
        "contained-in-unsure",
        "A document goes for certain only if one contains it that nothing else may contain.",
        "layers/containment.py",
        'sure = engine.join(edges, seekers, f"{LARGER}doc_id", how="anti")',
        "sure = edges",
        ("layers/test_containment.py",),
    ),
    Mutation(
        "chain-of-inclusions",
        "No document is compared with one that goes for certain.",
        "layers/containment.py",
        "((stays, self.most), (goes, 0))",
        "((stays, self.most), (goes, self.most))",
        ("layers/test_containment.py",),
    ),
    Mutation(
        "earlier-holder",
        "A document of an earlier batch stays, and holds others, though a later one contains it.",
        "layers/containment.py",
        "fetch=fetch, staying=earlier)",
        "fetch=fetch, staying=None)",
        ("store/test_layers.py",),
    ),
    Mutation(
        "own-duplicate",
        "A document is not told to be a duplicate of itself.",
        "store/comparing.py",
        'pc.if_else(pc.equal(same["other"], same["doc_id"]), same["following"], same["other"])',
        'pc.if_else(pc.equal(same["other"], same["doc_id"]), same["other"], same["other"])',
        ("store/test_comparing.py",),
    ),
    Mutation(
        "sure-of-all",
        "Documents whose bucket in another snapshot is over the cap are counted as unsure.",
        "store/links.py",
        "doubtful = owners[is_in(flat, over)],",
        "doubtful = owners[:0],",
        ("store/test_comparing.py",),
    ),
    Mutation(
        "deleted-comes-back",
        "What was deleted is not in a store of other settings.",
        "run/migrating.py",
        "    if strays:",
        "    if strays and not inputs:",
        ("store/test_migrating.py",),
    ),
    Mutation(
        "group-before",
        "A key that begins at the end of a group of rows is found there.",
        "store/snapshot.py",
        'np.searchsorted(wanted, keys[1:], side="right")',
        "np.searchsorted(wanted, keys[1:])",
        ("store/test_snapshot.py",),
    ),
)


def break_file(root: Path, mutation: Mutation) -> str:
    """Put a fault into a checkout and return what the file was before."""
    path = root / "dedup" / mutation.file
    before = path.read_text("utf-8")
    path.write_text(before.replace(mutation.old, mutation.new), "utf-8")
    return before


def copy(folder: Path) -> None:
    """Copy the checkout, without what earlier runs have compiled."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT), dirs_exist_ok=True)
    for name in ("jars", ".venv"):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)


def test(folder: Path, tests: Sequence[str], *, afresh: bool) -> str:
    """Return the first test that fails, or what ended the tests; empty if all pass."""
    with tempfile.TemporaryDirectory() as compiled:
        cache = compiled if afresh else str(folder / "compiled")
        own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": cache}
        own["HYPOTHESIS_PROFILE"] = "any"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
        options = {"cwd": folder, "env": {**os.environ, **own}, "capture_output": True, "text": True}
        try:
            done = subprocess.run(command, **options, check=False, timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            return "took too long"
    if done.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"


def main() -> int:
    """Try the faults one after the other; return 1 if one survives."""
    cli = argparse.ArgumentParser(prog="mutations", description=__doc__)
    cli.add_argument("names", nargs="*", metavar="NAME", help="of faults; default: all")
    cli.add_argument("--all", action="store_true", help="run the whole suite where the tests named find nothing")
    options = cli.parse_args()
    if unknown := set(options.names) - {each.name for each in MUTATIONS}:
        cli.error(f"unknown: {', '.join(sorted(unknown))}")
    survived = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        folder = Path(scratch)
        copy(folder)
        for mutation in MUTATIONS:
            if options.names and mutation.name not in options.names:
                continue
            begin = time.monotonic()
            before = break_file(folder, mutation)
            afresh = mutation.file.startswith(COMPILED)
            killer = test(folder, [f"tests/{each}" for each in mutation.tests], afresh=afresh)
            if not killer and options.all:
                killer = test(folder, WHOLE, afresh=afresh)
            (folder / "dedup" / mutation.file).write_text(before, "utf-8")
            if not killer:
                survived.append(mutation.name)
            print(f"{mutation.name:<18}{time.monotonic() - begin:6.0f} s  {killer or 'SURVIVED'}", flush=True)
    print(f"{len(survived)} survived{': ' if survived else ''}{', '.join(survived)}")
    return int(bool(survived))


if __name__ == "__main__":
    sys.exit(main())
