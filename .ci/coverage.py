"""The shares of lines and branches that the tests ran, from `.coverage`; the exit status is 1 if they are too few."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LINES, BRANCHES = 0.95, 0.90

with tempfile.TemporaryDirectory() as folder:
    report = Path(folder) / "coverage.json"
    subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", report], check=True)
    files = json.loads(report.read_text())["files"]

rows = []
for name, found in files.items():
    s = found["summary"]
    missing = s["missing_lines"] + s["missing_branches"]
    rows.append((missing, s["covered_lines"], s["num_statements"], s["covered_branches"], s["num_branches"], name))
lines = sum(r[1] for r in rows) / sum(r[2] for r in rows)
branches = sum(r[3] for r in rows) / sum(r[4] for r in rows)
for _, ran, of, taken, ways, name in sorted(rows, reverse=True)[:12]:
    print(f"{name}: lines {ran}/{of}, branches {taken}/{ways}")
print(f"lines {lines:.1%} (at least {LINES:.0%}), branches {branches:.1%} (at least {BRANCHES:.0%})")
sys.exit(lines < LINES or branches < BRANCHES)
