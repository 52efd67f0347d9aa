#!/usr/bin/env python3
"""Kills `lathe compress` at random moments until it is done, again and again: kill_compress.py LATHE RECIPE [--kills N] [--seed S]

First it runs the recipe once to its end, which fills the cost table. Then runs in fresh folders get the same table, and each is killed (SIGKILL) after a
random part of the time that the first one took, and started again, until it ends by itself; then its last model must be the first run's, to the bit, and the
registry must be whole. Goes on until N kills (50) have hit. Exit status 1 if a model differs.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time


def command(args, folder, table):
    return [args.lathe, "compress", args.recipe, "--json", "--work", str(folder / "work"), "--registry", str(folder / "registry"), "--cost-table", str(table)]


def run_to_end(args, folder, table):
    done = subprocess.run(command(args, folder, table), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the run failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def killed(args, folder, table, seconds):
    """Whether the run was killed; it may have ended by itself."""
    child = subprocess.Popen(command(args, folder, table), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        child.wait(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lathe")
    parser.add_argument("recipe")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    print(f"seed {args.seed}")
    kills = rounds = 0
    with tempfile.TemporaryDirectory() as name:
        base = pathlib.Path(name)
        table = base / "costs.json"
        (base / "first").mkdir()
        began = time.monotonic()
        want = run_to_end(args, base / "first", table)
        whole = time.monotonic() - began
        print(f"uninterrupted: {whole:.1f} s, model {want['file']}", flush=True)
        while kills < args.kills:
            folder = base / "killed"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            hits = 0
            while kills < args.kills and killed(args, folder, table, random.uniform(0.02, 1) * whole * 0.4):
                kills += 1
                hits += 1
            got = run_to_end(args, folder, table)
            rounds += 1
            print(f"run {rounds}: killed {hits} times, model {got['file']}", flush=True)
            if [v["file"] for v in got["versions"]] != [v["file"] for v in want["versions"]]:
                sys.exit("its models differ from the uninterrupted run's")
            subprocess.run([args.lathe, "registry", "verify", "--registry", str(folder / "registry")], check=True, stdout=subprocess.DEVNULL)
    print(f"{kills} kills in {rounds} runs: the same models every time")


if __name__ == "__main__":
    main()
