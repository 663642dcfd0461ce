"""Tests that each lint finds a planted breach of its rule."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import forbidden  # noqa: E402
import layering  # noqa: E402
import names  # noqa: E402
import private_jax  # noqa: E402
import prose  # noqa: E402
import python_rooms  # noqa: E402
import sizes  # noqa: E402
import source  # noqa: E402
import tags  # noqa: E402


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Returns tree({path: text, ...}), which makes these files the whole tree."""

    def make(files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        (tmp_path / "tools/lint").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tools/lint/waivers.txt").write_text("")
        monkeypatch.setattr(source, "ROOT", tmp_path)
        monkeypatch.setattr(source, "cpp_files", lambda: sorted(files))

    return make


@pytest.mark.parametrize("path, include, text", [
    ("pathways/base/x.h", "pathways/net/y.h", "must not include it"),
    ("pathways/controller/x.h", "pathways/worker/y.h", "must not"),
    ("pathways/frontend/x.h", "pathways/worker/y.h", "must not know"),
    ("pathways/worker/x.h", "xla/pjrt/c/pjrt_c_api.h", "only pathways/device/pjrt/"),
    ("pathways/controller/x.h", "ifrt_proxy/ifrt_service.pb.h", "only pathways/frontend/"),
    ("pathways/device/x.h", "xla/literal.h", "only plugins/"),
    ("plugins/pjrt_cpu/x.h", "pathways/base/log.h", "separate library"),
    ("plugins/c_table/x.h", "pathways/base/log.h", "separate library"),
    ("plugins/pathways_pjrt/x.h", "pathways/frontend/server.h", "nothing of a cluster or of another door"),
    ("pathways/worker/store/x.h", "pathways/worker/execute/y.h", "store/ stands above execute/"),
    ("pathways/worker/lanes/x.h", "pathways/worker/worker.h", "lanes/ stands above worker/"),
    ("pathways/controller/x.h", "pathways/controller/hosts/y.h", "controller/ stands above hosts/"),
    ("pathways/controller/session/arrays/x.h", "pathways/controller/session/runs/y.h", "arrays/ stands above runs/"),
    ("pathways/controller/session/runs/x.h", "pathways/controller/session/y.h", "runs/ stands above session/"),
    ("pathways/controller/closet/x.h", "pathways/controller/options.h", "'closet' is not a room"),
])
def test_an_include_in_the_wrong_direction(tree, path, include, text):
    tree({path: f'#include "{include}"\n'})
    assert len(layering.check()) == 1 and text in layering.check()[0]


def test_includes_in_the_right_direction(tree):
    tree({"pathways/frontend/x.h": '#include "pathways/base/y.h"\n#include "ifrt_proxy/z.pb.h"\n',
          "pathways/device/pjrt/x.h": '#include "xla/pjrt/c/pjrt_c_api.h"\n',
          "plugins/pathways_pjrt/x.h": '#include "pathways/client/client.h"\n',
          "pathways/worker/worker.h": '#include "pathways/worker/store/y.h"\n',
          "pathways/worker/store/x_test.cc": '#include "pathways/worker/testing.h"\n'})
    assert layering.check() == []


def test_a_source_begins_with_its_own_header(tree):
    tree({"pathways/base/x.h": "", "pathways/base/x.cc": '#include <string>\n#include "pathways/base/x.h"\n'})
    assert "the first #include" in layering.check()[0]


def test_long_functions_and_files(tree):
    body = "  Step();\n" * 71
    tree({"pathways/base/x.cc": f"namespace pw {{\nclass A {{\n  void Long() {{\n{body}  }}\n  void Short() {{}}\n}};\n}}\n",
          "pathways/base/y.h": "\n" * 301})
    problems = sizes.check()
    assert len(problems) == 2 and "Long has 73 lines" in problems[0] and "301 lines" in problems[1]


@pytest.mark.parametrize("line", [
    "std::thread t;", "std::this_thread::sleep_for(x);", "auto t = std::chrono::steady_clock::now();", "int r = rand();", "std::mutex mu;",
    "co_await x;", "throw 1;", "AlignedBytes out(n);", "auto out = AlignedBytes(n);"])
def test_forbidden_constructs(tree, line):
    tree({"pathways/worker/x.cc": line + "\n"})
    assert len(forbidden.check()) == 1


def test_words_in_comments_and_strings_are_no_constructs(tree):
    tree({"pathways/worker/x.cc": '// std::thread\nconst char* s = "std::mutex";\n/* rand() */\nchar c = \'"\'; int n = 1\'000;\n'})
    assert forbidden.check() == []


@pytest.mark.parametrize("line", ["from jax._src import core", "import jax._src.core as core", "from jaxlib import _jax", "from jaxlib.mlir import ir",
                                  "import jax\nx = jax._src.core", "import jaxlib._pathways", "import sys\nsys.modules['jax._src.xla_bridge']",
                                  "def f():\n    from jax._src.lib import xla_client", "def f(sharding):\n    return sharding._device_list",
                                  "def f(array):\n    return getattr(array, '_shards', None)"])
def test_a_private_name_of_jax(tree, line):
    tree({"python/pathways/_x.py": line + "\n"})
    (problem,) = set(private_jax.check())
    assert problem.startswith("python/pathways/_x.py:") and "_jax/seams.py" in problem


@pytest.mark.parametrize("path, line", [("python/pathways/_x.py", "from jax.extend import core"), ("python/pathways/_x.py", "# jax._src.core"),
                                        ("python/pathways/_x.py", "import jaxlib; print(jaxlib.__version__)"),
                                        ("python/pathways/_x.py", "text = 'see jax._src of old'"),
                                        ("python/pathways/_x.py", "def f(one):\n    one._ours = 1\n    return one._ours"),
                                        ("python/pathways/_x.py", "import os\nos._exit(0)"),
                                        ("python/pathways/_jax/x.py", "def f(sharding):\n    return sharding._device_list"),
                                        ("python/pathways/_jax/seams.py", "from jax._src import core")])
def test_public_names_of_jax_and_the_door_to_private_ones(tree, path, line):
    tree({path: line + "\n"})
    assert private_jax.check() == []


ROOMS = {"_jax/__init__.py": '"""May import no other room."""', "_cluster/__init__.py": '"""May import no other room."""',
         "_client/__init__.py": '"""May import _jax and _cluster."""', "__init__.py": "", "cli.py": "from pathways._client import x"}


@pytest.mark.parametrize("files, text", [
    ({"_jax/x.py": "from pathways._client import y", "_client/y.py": ""}, "_jax/x:1: _jax must not import _client.y"),
    ({"_jax/x.py": "def f():\n    import pathways._client.y", "_client/y.py": ""}, "_jax/x:2: _jax must not import _client.y"),
    ({"_jax/x.py": "from pathways import cli"}, "_jax must not import cli"),
    ({"_jax/x.py": "from .. import cli"}, "_jax must not import a relative name"),
    ({"_jax/x.py": "from pathways._jax import y", "_jax/y.py": "def f():\n    from pathways._jax import x"}, "_jax.x -> _jax.y -> _jax.x"),
    ({"_client/__init__.py": '"""The connection."""'}, "one sentence \"May import"),
    ({"_cluster/__init__.py": '"""May import _client."""'}, "_client does not come before _cluster"),
    ({"_closet/__init__.py": '"""May import no other room."""'}, "_closet: not a room"),
    ({"closet.py": ""}, "closet.py: not one of the modules beside the rooms"),
])
def test_an_import_that_the_rules_of_the_rooms_forbid(tree, files, text):
    tree({f"python/pathways/{path}": content for path, content in {**ROOMS, **files}.items()})
    (problem,) = python_rooms.check()
    assert text in problem


def test_imports_that_the_rules_of_the_rooms_allow(tree):
    tree({f"python/pathways/{path}": content for path, content in {
        **ROOMS, "_client/x.py": "import jax\nfrom pathways._jax import y\nfrom pathways._client import z", "_jax/y.py": "", "_client/z.py": ""}.items()})
    assert python_rooms.check() == []


LONG = " ".join(["word"] * (prose.MOST_WORDS + 1)) + "."


@pytest.mark.parametrize("path, text, found", [
    ("x.h", "// What arrives here.\nint x;\n", ["opening"]),
    ("x.h", f"// {LONG}\n", ["long"]),
    ("x.h", f"// {LONG[:-30]}. Short.\n", []),
    ("x.cc", "int f() {\n  g();  // whatever comes\n}\n", ["phrase"]),
    ("x.cc", 'auto text = "// What is this";\n', []),
    ("x.py", '"""How it goes."""\n\n\ndef f():\n    """Returns one."""\n    # Who asks.\n', ["opening", "opening"]),
    ("x.md", "# What it is\n\n```\nWhat is this\n```\n\nWhat is it?\n\n| What | Who |\n", []),
    ("x.md", "Instead of\nwhatever.\n\nWho reads this.\n", ["phrase", "opening"]),
    ("docs/flags.md", "What it does.\n", []),
])
def test_prose_that_readers_stumble_over(tree, monkeypatch, path, text, found):
    tree({path: text})
    monkeypatch.setattr(prose, "files", lambda paths: [p for p in [path] if p not in prose.GENERATED])
    lines, _ = prose.check()
    assert [line.split(": ")[1] for line in lines] == found


def test_a_tag_that_two_headers_define(tree):
    tree({"pathways/base/a.h": "// Invariant AB-1 it holds\n", "pathways/net/b.h": "//   AB-1  that holds\n//   CD-1  and this\n"})
    assert tags.check() == ["the invariant tag AB is defined in pathways/base/a.h and in pathways/net/b.h: rename one"]
    tree({"pathways/base/a.h": "//   AB-1  it holds\n//   AB-2  and this\n", "pathways/net/b.h": "// by AB-1 of a.h\n"})
    assert tags.check() == []


def test_a_name_that_nothing_defines_is_found(tree, monkeypatch):
    text = "import os\n\n\ndef f(a):\n    global made\n    made = [b for b in a]\n    return os, made, len, __file__, g\n\n\ndef top(c):\n    return c{}\n"
    tree({"a.py": text.format("")})
    monkeypatch.setattr(names, "_python_files", lambda: ["a.py"])
    assert names.check() == ["a.py:4: f reads 'g', which nothing defines"]
    tree({"a.py": text.format(" + b\n\n\ng = 1")})
    assert names.check() == ["a.py:10: top reads 'b', which nothing defines"]
