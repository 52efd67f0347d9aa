#!/usr/bin/env python3
"""Run the suite of one build directory and count test cases, not executables.

`meson test` runs and reports; this reads its log. A doctest executable counts as
the test cases that its summary line states, any other test (the check scripts)
as one case. Every way to end badly is at least one failure: a crash, a time-out,
a sanitizer's exit status, a doctest executable without cases, an empty suite.

A test that leaves something out on this machine (an ISA that the CPU lacks, data
that is not there) says so with MESSAGE("skipped, ..."). Each such place and text
counts as skipped, beside the passed case that it stands in, and is listed. What a
test measures for the record it says with MESSAGE("figure: ..."), and that is listed.

On x86-64 the suite runs once for each entry of ISA_CAPS; the checks of the tree
itself (meson suite `checks`) do not depend on the ISA and run once.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

# Values of LATHE_ISA; the first run is uncapped. The only place that lists them.
ISA_CAPS = ["", "avx2", "scalar"]
# Without vectors real models take minutes; that they give equal bytes on every level the uncapped run shows. Verbs that judge
# models do the same on every level.
TOO_SLOW = {"scalar": ["models", "quality"]}

SUMMARY = re.compile(r"^\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped", re.M)
SKIPPED = re.compile(r"^(?:\.\./)*(\S+): MESSAGE: skipped[,:] *(.+)$", re.M)
FIGURE = re.compile(r"MESSAGE: figure: *(.+)$", re.M)
# The place and the first lines of what a doctest executable reports, up to its blank line.
REPORT = re.compile(r"^(?:\.\./)*(\S+): (?:FATAL )?ERROR: .*(?:\n.+){0,3}", re.M)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: set = field(default_factory=set)  # (place, text)
    figures: list = field(default_factory=list)
    broken: list = field(default_factory=list)  # one text per failed test: its name, how it ended, its first report

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.left_out |= other.left_out
        self.figures += [f for f in other.figures if f not in self.figures]
        self.broken += other.broken

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_test(record):
    """Counts of one line of meson's JSON log."""
    out = COLOUR.sub("", record.get("stdout") or "")
    result = record["result"]
    counts = Counts(left_out=set(SKIPPED.findall(out)), figures=FIGURE.findall(out))
    counts.skipped = len(counts.left_out)
    cases = [tuple(map(int, m)) for m in SUMMARY.findall(out)]
    if cases:
        passed, failed, skipped = map(sum, zip(*cases))
        counts.add(Counts(passed, failed, skipped))
        if passed + failed + skipped == 0:
            counts.failed += 1
    elif result == "OK":
        counts.passed += 1
    elif result == "SKIP" and not counts.left_out:
        counts.skipped += 1
    if result not in ("OK", "SKIP", "EXPECTEDFAIL") and counts.failed == 0:
        counts.failed += 1
    if counts.failed:
        counts.broken.append(f"{record['name']}: {result}{first_report(out, record.get('stderr') or '')}")
    return counts


def first_report(out, err):
    """The first failed assertion, or else the last lines that the test printed; indented, on lines of its own."""
    report = REPORT.search(out)
    lines = report.group(0).splitlines() if report else (out + COLOUR.sub("", err)).strip().splitlines()[-8:]
    return "".join(f"\n      {line}" for line in lines)


def count_log(log):
    counts = Counts()
    if log.exists():
        for line in log.read_text(errors="replace").splitlines():
            counts.add(count_test(json.loads(line)))
    if counts.passed + counts.failed == 0:
        counts.failed = 1
        counts.broken.append("no test ran")
    return counts


def run_suite(args, cap, first):
    """One `meson test` of the build directory under LATHE_ISA=cap."""
    label = f"{args.label}, LATHE_ISA={cap}" if cap else args.label
    print(f"== {label}: running the tests", flush=True)
    base = f"suite-{cap or 'uncapped'}"
    log = args.build / "meson-logs" / f"{base}.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", str(args.build), "--no-rebuild", "--print-errorlogs", "--logbase", base,
               "--timeout-multiplier", str(args.timeout_multiplier)]
    if args.suite:
        command += ["--suite", args.suite]
    elif not first:
        command += ["--no-suite", "checks"]
    for suite in [*args.leave_out, *TOO_SLOW.get(cap, [])]:
        command += ["--no-suite", suite]
    env = {k: v for k, v in os.environ.items() if k != "LATHE_ISA"}
    if cap:
        env["LATHE_ISA"] = cap
    start = time.monotonic()
    status = subprocess.run(command, env=env, stdin=subprocess.DEVNULL).returncode
    counts = count_log(log)
    if status != 0 and counts.failed == 0:
        counts.failed = 1
        counts.broken.append(f"meson test ended with status {status}")
    counts.broken = [f"{label}: {text}" for text in counts.broken]
    print(f"== {label}: {counts} ({time.monotonic() - start:.0f} s)", flush=True)
    return counts


def main():
    p = argparse.ArgumentParser(description="run the suite of a build directory and count test cases")
    p.add_argument("build", type=Path)
    p.add_argument("--label", default="suite")
    p.add_argument("--uncapped-only", action="store_true", help="do not repeat the suite under ISA_CAPS")
    p.add_argument("--suite", help="only this meson suite")
    p.add_argument("--leave-out", metavar="SUITE", action="append", default=[], help="not this meson suite")
    p.add_argument("--timeout-multiplier", type=float, default=10)
    p.add_argument("--totals", type=Path, help="append 'passed failed skipped' to this file")
    args = p.parse_args()

    total = Counts()
    for i, cap in enumerate(ISA_CAPS[:1] if args.uncapped_only else ISA_CAPS):
        total.add(run_suite(args, cap, first=i == 0))
    for text in total.broken:
        print(f"   failed: {text}")
    for text in total.figures:
        print(f"   {text}")
    for place, what in sorted(total.left_out):
        print(f"   skipped at {place}: {what}")
    if args.totals:
        with args.totals.open("a") as f:
            f.write(f"{total.passed} {total.failed} {total.skipped}\n")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
