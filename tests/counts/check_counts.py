#!/usr/bin/env python3
"""Compares instruction counts under callgrind with the committed ones: check_counts.py DRIVER [--update]

counts.txt holds, per instruction set and case, how many instructions count_driver needed when it was last updated, and which
compiler made them. A case that needs over MARGIN percent more fails: the kernel got slower. One that needs as much less is named,
so that it can be committed:

    tests/counts/check_counts.py BUILD/tests/counts/count_driver --update

Counts do not depend on the machine or its load, only on the code. Without valgrind, or built by another compiler than the
committed counts, the check is skipped and says so.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MARGIN = 5
# valgrind 3.19 knows no AVX-512.
ISAS = ("avx2", "scalar")
COUNTS = pathlib.Path(__file__).resolve().parent / "counts.txt"
MESON_SKIP = 77


def skip(why):
    print(f"tests/counts/check_counts.py: MESSAGE: skipped, {why}")
    sys.exit(MESON_SKIP)


def compiler(driver):
    """The compiler's own note in the program, such as `GCC: (Debian 12.2.0-14) 12.2.0` -> `gcc 12`."""
    found = re.findall(rb"GCC: \([^)]*\) (\d+)\.[\d.]+|clang version (\d+)", driver.read_bytes())
    names = {f"gcc {gcc.decode()}" if gcc else f"clang {clang.decode()}" for gcc, clang in found}
    # C start-up files carry the distribution's GCC also in a program that clang made.
    clang = sorted(n for n in names if n.startswith("clang"))
    return clang[0] if clang else " ".join(sorted(names)) or "unknown"


def measure(driver, isa):
    """Case -> instructions, in the driver's order; None where this machine has no such instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=lathe_counted", "--dump-after=lathe_counted",
                   f"--callgrind-out-file={folder}/out", str(driver.resolve())]
        run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LATHE_ISA": isa, "OMP_NUM_THREADS": "1"})
        if run.returncode != 0:
            sys.exit(f"count_driver failed under LATHE_ISA={isa}:\n{run.stderr}")
        used, *names = run.stdout.splitlines()
        if used != isa:
            return None
        dumps = [pathlib.Path(folder) / f"out.{i + 1}" for i in range(len(names))]
        return {name: int(re.search(r"^totals: (\d+)", dump.read_text(), re.M)[1]) for name, dump in zip(names, dumps)}


def read_counts():
    """(compiler, {(isa, case): instructions})"""
    lines = COUNTS.read_text().splitlines()
    counts = {}
    for line in lines[1:]:
        isa, case, number = line.split("\t")
        counts[isa, case] = int(number)
    return lines[0].removeprefix("# made by "), counts


def compare(now, committed):
    """Prints every case; returns the faults."""
    faults = []
    for key in sorted(set(now) | set(committed)):
        name = " ".join(key)
        if key not in now or key not in committed:
            faults.append(f"{name}: only in {'the driver' if key in now else 'counts.txt'}; update counts.txt")
            continue
        change = 100 * (now[key] / committed[key] - 1)
        print(f"{name:44} {committed[key]:10} {now[key]:10} {change:+6.1f} %")
        if change > MARGIN:
            faults.append(f"{name}: {change:+.1f} % instructions, {MARGIN} % are allowed")
        elif change < -MARGIN:
            print(f"    better than committed: run check_counts.py --update")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("driver", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write counts.txt anew")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed: instruction counts")
    made_by = compiler(options.driver)
    if not options.update and made_by != read_counts()[0]:
        skip(f"built by {made_by}, counted with {read_counts()[0]}: instruction counts")
    now, lacking = {}, []
    for isa in ISAS:
        counts = measure(options.driver, isa)
        lacking += [isa] if counts is None else []
        now |= {(isa, case): number for case, number in (counts or {}).items()}
    if options.update:
        COUNTS.write_text(f"# made by {made_by}\n" + "".join(f"{i}\t{c}\t{n}\n" for (i, c), n in now.items()))
        return 0
    committed = {key: number for key, number in read_counts()[1].items() if key[0] not in lacking}
    faults = compare(now, committed)
    for isa in lacking:
        print(f"tests/counts/check_counts.py: MESSAGE: skipped, this CPU lacks {isa}: instruction counts")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
