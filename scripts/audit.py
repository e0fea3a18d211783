"""Tell what pip-audit has found, and of which packages it knows nothing: an index may not have them."""

import json
import sys
from pathlib import Path


def main() -> int:
    """Print the advisories of a report of pip-audit; return 1 where there are any, 2 where packages had no answer."""
    packages = json.loads(Path(sys.argv[1]).read_text("utf-8"))["dependencies"]
    unknown = [each["name"] for each in packages if "skip_reason" in each]
    found = [(each, advisory) for each in packages for advisory in each.get("vulns", ())]
    for each, advisory in found:
        fixed = ", ".join(advisory["fix_versions"]) or "none yet"
        print(f"{each['name']} {each['version']}  {advisory['id']}  fixed in: {fixed}")
    print(f"{len(packages) - len(unknown)} of {len(packages)} packages asked about, {len(found)} advisories")
    if unknown:
        sys.stderr.write(
            f"scripts/audit: the index that was asked has no answer about {', '.join(unknown)}; ask where PyPI itself "
            "is reached, or others: scripts/audit --vulnerability-service osv\n"
        )
    return 1 if found else 2 if unknown else 0


sys.exit(main())
