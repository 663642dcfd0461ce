"""Finds constructs that only some folders may use: time, randomness, threads and locks come through interfaces (ARCHITECTURE.md)."""

import re

import source

_EDGES = ("pathways/base/", "pathways/net/", "pathways/bin/", "pathways/device/")
_TESTS = re.compile(r"_test\.cc$|/testing/|^tests/|^bench/|_bench\.cc$")

# (construct, pattern, folders that may use it, whether tests may, the remedy)
RULES = [
    ("a thread", re.compile(r"\bstd::(thread|jthread|async)\b|\bpthread_create\b"), _EDGES, True, "pw::ThreadPool or an Executor"),
    ("sleep", re.compile(r"\bsleep_(for|until)\b|\b(u|nano)?sleep\s*\(|\bSleepFor\b"), (), False, "a future, or Timers::After"),
    ("the clock", re.compile(r"\b(system_clock|steady_clock|high_resolution_clock)::now\b|\babsl::Now\b"), _EDGES, True,
     "pw::Clock"),
    ("randomness", re.compile(r"\bs?rand\s*\(|\brandom_device\b|\bmt19937(_64)?\b"), _EDGES, True, "a seeded generator that is passed in"),
    ("a lock", re.compile(r"\bstd::(shared_|recursive_)?mutex\b|\babsl::Mutex\b"), _EDGES + ("pathways/trace/",), True, "a strand"),
    ("memory whose lack ends the process", re.compile(r"\bAlignedBytes(\s+\w+)?\("),
     ("pathways/base/", "pathways/device/simulated/", "pathways/net/in_memory/", "pathways/net/testing.h", "pathways/lanes/lane_end_fuzz.cc"),
     True, "TryAllocate"),
    ("a coroutine", re.compile(r"\bco_(await|return|yield)\b"), (), False, "futures: g++ 12 miscompiles coroutines"),
    ("an exception", re.compile(r"\bthrow\b"), ("plugins/",), False, "absl::Status"),
]


def check():
    problems, waived = [], source.waivers("construct")
    for path in source.cpp_files():
        if not path.startswith("pathways/") or path in waived:
            continue
        for number, line in enumerate(source.blank(source.read(path)).split("\n"), 1):
            for what, pattern, folders, in_tests, instead in RULES:
                if not pattern.search(line) or path.startswith(folders or ("\0",)) or (in_tests and _TESTS.search(path)):
                    continue
                problems.append(f"{path}:{number}: {what}; use {instead}")
    return problems
