"""Write the file; another content is another version."""

import json

from tests.vectors import CASES, FILE, make

FILE.write_text(json.dumps([make(**case) for case in CASES], indent=1, ensure_ascii=False) + "\n", "utf-8")
