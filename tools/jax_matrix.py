"""Runs jax's own tests on this backend, for each version of jax, and writes the results into docs/compatibility.md. The results of some files alone
(--files) are only printed: the document has sections of whole runs.

  jax_matrix.py                                        a sample of FILES on the two newest supported versions
  jax_matrix.py --versions 0.8.3 --files fft_test nn_test
  jax_matrix.py --all                                  every test of every file: hours
  jax_matrix.py --door pjrt                            through jax's own process (PATHWAYS_DOOR)
  jax_matrix.py --source ~/jax --revision 0.12.0.1=main      tests from your checkout, of a revision if it lacks the tag

The tests come from jax's repository, at the tag of each version, because jax's packages have none. The file tools/jax_known_failures.txt lists
the tests that are known to fail, each with a reason. The exit status is 1 if a test fails that is not on the list, or if one on the list passes.
"""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

from run_tests import BUILD, NEWEST, OLDER, ROOT

PLACE = ROOT / "build" / "jax-matrix"
DOCUMENT = ROOT / "docs" / "compatibility.md"
KNOWN = ROOT / "tools" / "jax_known_failures.txt"
PACKAGES = ROOT / "tools" / "locks" / "requirements-jax-suite.txt"
BEGIN, END = "<!-- tools/jax_matrix.py writes from here -->", "<!-- to here -->"
FILES = ["api", "aot", "array", "batching", "checkify", "colocated_python", "core", "custom_api", "custom_linear_solve", "debug_nans",
         "debugging_primitives", "dtypes", "export", "ffi", "fft", "hijax", "image", "jaxpr_effects", "key_reuse", "lax_autodiff",
         "lax_control_flow", "lax_numpy_indexing", "lax_numpy_operators", "lax_numpy_reducers", "lax_numpy", "lax_scipy", "lax", "lax_vmap",
         "layout", "linalg", "memories", "multi_device", "mutable_array", "nn", "pjit", "pmap", "python_callback", "random_lax", "random",
         "shard_map", "sparsify", "string_array"]


class Stop(Exception):
    """A version cannot be run; the text tells the user why."""


class KnownFailures:
    """The lines 'versions | test | reason' of the list. versions: names separated by commas, or '*', for one door '*/pjrt'; a '*' in a test stands for any
    text."""

    def __init__(self, text):
        self._lines = [tuple(part.strip() for part in line.split("|", 2)) for line in text.splitlines() if line and not line.startswith("#")]

    def of(self, version, door="ifrt"):
        """Returns {test: reason} for a version, by a door."""
        names = {"*", version, f"*/{door}", f"{version}/{door}"}
        return {test: reason for versions, test, reason in self._lines if names.intersection(versions.replace(",", " ").split())}


class Outcome:
    """The results of one version: the rows of its files, compared with the list of known failures."""

    def __init__(self, rows, known):
        self.rows, self.known = rows, known
        self.ours = {test: text for row in rows for test, text in row["failed_on_ours_only"].items()}
        passed = [test for row in rows for test in row["passed"]]
        self.new = sorted(test for test in self.ours if not self._reason(test))
        self.mended = sorted(test for test in passed if self._reason(test))

    def _reason(self, test):
        return next((reason for name, reason in self.known.items() if fnmatch.fnmatchcase(test, name)), None)

    def good(self):
        return not self.new and not self.mended

    def counts(self, rows):
        known = sum(self._reason(test) is not None for row in rows for test in row["failed_on_ours_only"])
        failed = sum(len(row["failed_on_ours_only"]) for row in rows)
        return {"run": sum(row["chosen"] for row in rows), "passed": sum(len(row["passed"]) for row in rows),
                "skipped": sum(row["skipped"] for row in rows), "known": known, "failed": failed - known,
                "on jax's own cpu too": sum(row["failed_on_both"] for row in rows)}

    def reasons(self):
        """Returns {reason: the known tests that failed}."""
        found = {}
        for test in sorted(self.ours):
            if reason := self._reason(test):
                found.setdefault(reason, []).append(test)
        return found

    def unfinished(self):
        return [row["file"] for row in self.rows if row["unfinished"]]

    def uncollected(self):
        """Returns {file: error} of the files whose tests could not be collected."""
        return {row["file"]: row["collection_error"] for row in self.rows if not row["collected"]}


def environment_of(version):
    for one in [NEWEST, BUILD, *OLDER]:
        if one.exists() and one.jax() == version:
            return one
    raise Stop(f"no environment under build/ has jax {version}: 'make setup' makes those that are supported")


def git(*arguments, **more):
    return subprocess.run(["git", *map(str, arguments)], check=True, **more)


def repository_with(source, revision):
    """Returns (a repository with the revision, the revision's name there). source: a folder, or an address, from which one commit is fetched."""
    if pathlib.Path(source).is_dir():
        return pathlib.Path(source).resolve(), revision
    repository = PLACE / "repository"
    git("init", "-q", "--bare", repository)
    git("-C", repository, "fetch", "-q", "--depth", "1", source, revision)
    return repository, "FETCH_HEAD"


def tests_of(version, source, revision):
    """Returns (the folder of jax's tests, their commit)."""
    folder = PLACE / "tests" / version
    try:
        repository, name = repository_with(source, revision)
        commit = git("-C", repository, "rev-parse", "--verify", f"{name}^{{commit}}", capture_output=True, text=True).stdout.strip()
        folder.mkdir(parents=True, exist_ok=True)
        archive = git("-C", repository, "archive", commit, "tests", capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr or ""
        raise Stop(f"the tests of jax {version} are not to be had: '{revision}' of {source}. {said.strip()} "
                   "Name a checkout with --source, and a revision near the version with --revision VERSION=REVISION.") from error
    return folder / "tests", commit


def packages_for(environment):
    """Returns a folder with the packages that only jax's tests need. The environment itself does not change, because other tests use it."""
    folder, wanted = PLACE / f"packages-{environment.folder.name}", PACKAGES.read_text()
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != wanted:
        subprocess.run([environment.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--upgrade",
                        "--target", folder, "-r", PACKAGES], check=True)
        ready.write_text(wanted)
    return folder


def run_version(version, args):
    environment = environment_of(version)
    tests, commit = tests_of(version, args.source, args.revisions.get(version, f"jax-v{version}"))
    known = KnownFailures(KNOWN.read_text()).of(version, args.door)
    names = args.files or [f"{name}_test" for name in FILES]
    names = sorted(path.stem for path in tests.glob("*_test.py")) if args.all and not args.files else names
    present = [name for name in names if (tests / f"{name}.py").exists()]
    out = PLACE / (version if args.door == "ifrt" else f"{version}-{args.door}")
    command = [environment.python, ROOT / "tools" / "jax_suite.py", "--tests", tests, "--out", out, "--jobs", str(args.jobs), "--seed",
               str(args.seed), "--sample", "0" if args.all else str(args.sample), "--file-seconds", str(args.file_seconds)]
    command += [part for test in known for part in ("--also", test)]
    print(f"\njax {version}: {len(present)} files of tests, of {commit[:12]}", flush=True)
    subprocess.run([*command, *present], check=False, env=os.environ | {"PYTHONPATH": str(packages_for(environment)), "PATHWAYS_DOOR": args.door})
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    if len(rows) != len(present):
        raise Stop(f"the tests of jax {version} ended early: {len(rows)} of {len(present)} files are in {out}/results.jsonl")
    return Outcome(sorted(rows, key=lambda row: row["file"]), known), describe(version, environment, commit, args)


def describe(version, environment, commit, args):
    python = subprocess.run([environment.python, "-c", "import platform; print(platform.python_version())"], check=True, capture_output=True,
                            text=True).stdout.strip()
    of = f"the tag of jax {version}" if version not in args.revisions else f"jax's revision {commit[:12]}, which is not of this version"
    much = "every test of each file" if args.all else f"at most {args.sample} tests of each file, drawn with seed {args.seed}"
    return f"Measured on {datetime.date.today()} with jax {version} and Python {python}; tests of {of}; {much}."


def table(outcome):
    columns = list(outcome.counts([]))
    lines = ["| file | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in outcome.rows:
        lines.append(f"| `{row['file']}` | " + " | ".join(str(n) for n in outcome.counts([row]).values()) + " |")
    return [*lines, "| all | " + " | ".join(str(n) for n in outcome.counts(outcome.rows).values()) + " |"]


def short(text):
    errors = [line for line in text.splitlines() if line.startswith("E  ")] or text.strip().splitlines() or ["no text"]
    return re.sub(r" \(/.*", "", errors[-1].removeprefix("E").strip())[:160].replace("`", "'")  # without paths of this machine


def titled(version, door):
    return version if door == "ifrt" else f"{version}, by the {door.upper()} door"


def section(title, outcome, said):
    """Returns the section of a version and door in the document, as lines."""
    lines = [f"### jax {title}", "", said, "", *table(outcome)]
    if outcome.unfinished():
        lines += ["", "Not ended within the time for a file, so the rest of these was not run: " + ", ".join(outcome.unfinished()) + "."]
    if outcome.uncollected():
        lines += ["", "No test of these could be collected:", ""] + [f"- `{file}`: {short(why)}" for file, why in outcome.uncollected().items()]
    if outcome.reasons():
        lines += ["", "Known to fail:", ""]
        lines += [f"- {reason}: " + ", ".join(f"`{test}`" for test in tests) for reason, tests in outcome.reasons().items()]
    if outcome.new:
        lines += ["", "Failed, and not on the list:", ""] + [f"- `{test}`: {short(outcome.ours[test])}" for test in outcome.new]
    if outcome.mended:
        lines += ["", "On the list, and passed:", ""] + [f"- `{test}`" for test in outcome.mended]
    return lines


def put_section(document, title, lines):
    """Returns the document with this section replaced or added, newest version first, and each version's IFRT door first."""
    before, rest = document.split(BEGIN)
    inside, after = rest.split(END)
    sections = {part.split("\n", 1)[0].strip(): "### jax " + part.strip() for part in inside.split("### jax ")[1:]}
    sections[title] = "\n".join(lines)
    ordered = sorted(sections, key=lambda name: ([-int(part) for part in name.split(",")[0].split(".")], name))
    return before + BEGIN + "\n\n" + "\n\n".join(sections[name] for name in ordered) + "\n\n" + END + after


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=[one.jax() for one in (BUILD, NEWEST) if one.exists()])
    parser.add_argument("--files", nargs="+", default=[], help="names of files of tests, without .py; default: FILES")
    parser.add_argument("--all", action="store_true", help="every test of every file, or of those in --files")
    parser.add_argument("--sample", type=int, default=25, help="tests of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="files at a time")
    parser.add_argument("--file-seconds", type=int, help="after which the rest of a file is left out; default 240, with --all 3600")
    parser.add_argument("--source", default="https://github.com/jax-ml/jax", help="jax's repository: an address or a folder")
    parser.add_argument("--revision", action="append", default=[], metavar="VERSION=REVISION", help="default: the tag of the version")
    parser.add_argument("--door", choices=("ifrt", "pjrt"), default="ifrt", help="how jax enters the cluster; each has sections of its own")
    parser.add_argument("--no-document", action="store_true", help="leave docs/compatibility.md as it is")
    args = parser.parse_args()
    args.revisions = dict(one.split("=", 1) for one in args.revision)
    args.file_seconds = args.file_seconds or (3600 if args.all else 240)
    return args


def main():
    args = arguments()
    good = True
    for version in args.versions:
        try:
            outcome, said = run_version(version, args)
        except Stop as why:
            print(f"jax_matrix: {why}", file=sys.stderr)
            good = False
            continue
        title = titled(version, args.door)
        lines = section(title, outcome, said)
        print("\n" + "\n".join(lines), flush=True)
        if not args.no_document and not args.files:
            DOCUMENT.write_text(put_section(DOCUMENT.read_text(), title, lines))
        good &= outcome.good()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
