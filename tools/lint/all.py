"""Runs the lints that need no compiler. Prints one finding a line; the exit status is 1 if there is one."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import forbidden  # noqa: E402
import layering  # noqa: E402
import names  # noqa: E402
import private_jax  # noqa: E402
import python_rooms  # noqa: E402
import sizes  # noqa: E402
import tags  # noqa: E402


def main():
    failed = 0
    for name, lint in (("layering", layering), ("sizes", sizes), ("forbidden constructs", forbidden),
                       ("private names of jax", private_jax), ("rooms of the Python package", python_rooms), ("names in Python", names), ("tags of invariants", tags)):
        problems = lint.check()
        print("\n".join(f"lint: {p}" for p in problems) + ("\n" if problems else "") + f"lint: {name}: {len(problems)} findings")
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
