"""Functions that wait for a module's import: all are called, in order, once the module's own code has run."""

import sys

from pathways._jax.after_import import call_after_import


def test_all_that_wait_for_a_module_are_called_in_order(tmp_path, monkeypatch):
    (tmp_path / "a_module_to_wait_for.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    calls = []
    call_after_import("a_module_to_wait_for", lambda module: calls.append(("first", module.answer)))
    call_after_import("a_module_to_wait_for", lambda module: calls.append(("second", module.answer)))
    assert calls == []
    import a_module_to_wait_for

    assert calls == [("first", 42), ("second", 42)]
    call_after_import("a_module_to_wait_for", lambda module: calls.append(("late", module)))
    assert calls[-1] == ("late", a_module_to_wait_for)
    del sys.modules["a_module_to_wait_for"]
