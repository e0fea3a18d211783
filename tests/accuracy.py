"""Judge the job against an exact oracle on real corpora: accuracy.py FOLDER.

FOLDER holds oracle/judge.py, data/NAME.parquet, and data/truth/NAME_pairs.parquet and NAME_groups.parquet.
With default settings every pair at the threshold must be found but one in a thousand, and nothing be removed without
reason; exact mode must keep exactly as many documents as there are components.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dedup.config import load_config
from dedup.pipeline import run
from dedup.run import Job
from dedup.session import open_session

CORPORA = ("powershell_docs", "tldr_pages", "license_rules")
VERDICT = re.compile(
    r"kept (\d+) \(exact answer (\d+)\) of (\d+) \| missed (\d+) of .*"
    r"recall ([\d.]+) of \d+ \| false (\d+) \| bereft (\d+) \| strangers (\d+)"
)


def judge(folder: Path, corpus: str, kept: Path) -> str:
    truth = folder / "data" / "truth"
    command = [folder / "oracle" / "judge.py", folder / "data" / f"{corpus}.parquet", kept]
    command += [truth / f"{corpus}_pairs.parquet", truth / f"{corpus}_groups.parquet"]
    judged = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=True)
    return judged.stdout.strip()


def holds(verdict: str, mode: str) -> bool:
    found = VERDICT.match(verdict)
    if found is None:
        return False
    kept, exact, _, missed, *rest = found.groups()
    recall, *faults = rest
    if int(missed) or any(map(int, faults)):
        return False
    if mode == "exact":
        return kept == exact and float(recall) == 1
    return abs(int(kept) - int(exact)) <= 0.001 * int(exact) and float(recall) >= 0.999


def main(folder: Path) -> int:
    spark = open_session(quiet=True)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for corpus in CORPORA:
            for mode in ("lsh", "exact"):
                output = Path(scratch) / f"{corpus}-{mode}"
                config = load_config(None, None, ["input.id_column=doc_id", f"mode={mode}"])
                source = str(folder / "data" / f"{corpus}.parquet")
                run(spark, Job(inputs=[source], output=str(output), config=config))
                verdict = judge(folder, corpus, output / "kept")
                good = holds(verdict, mode)
                passed, failed = passed + good, failed + (not good)
                print(f"{'passed' if good else 'FAILED'}  {corpus}, mode {mode}: {verdict}", flush=True)
    spark.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
