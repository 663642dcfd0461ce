"""The IR's tests: `build/venv/bin/lit -v tests/ir`. The RUN lines of each file have the command and the expected output."""

import os
import pathlib
import sys

import lit.formats

root = pathlib.Path(__file__).resolve().parents[2]
config.name = "ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".txtpb", ".test"]
config.test_source_root = str(root / "tests" / "ir")
config.test_exec_root = str(root / "build" / "results" / "ir")
tree = pathlib.Path(lit_config.params.get("tree", "build/release"))
llvm = next(folder for folder in ("/usr/lib/llvm-19/bin", *os.environ["PATH"].split(":")) if os.path.exists(f"{folder}/FileCheck"))
config.environment["PATH"] = os.pathsep.join([str(root / tree / "bin"), llvm, os.environ["PATH"]])
config.substitutions += [("%python", sys.executable), ("%root", str(root))]
