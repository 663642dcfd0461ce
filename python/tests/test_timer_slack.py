"""Tests the timer slack of threads that are started inside and outside of unhurried()."""

import pathlib
import sys
import threading

import pytest
from pathways._client import timer_slack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has timer slack")


def slack(thread=None):
    return int(pathlib.Path(f"/proc/{thread or threading.get_native_id()}/timerslack_ns").read_text())


def slack_of_a_new_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(slack()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_started_meanwhile_are_in_no_hurry_and_nobody_else():
    before = slack()
    assert slack_of_a_new_thread() == before < timer_slack.NANOSECONDS
    with timer_slack.unhurried():
        assert slack_of_a_new_thread() == timer_slack.NANOSECONDS
    assert slack() == slack_of_a_new_thread() == before


def test_an_error_meanwhile_changes_nothing():
    before = slack()
    with pytest.raises(RuntimeError), timer_slack.unhurried():
        raise RuntimeError
    assert slack() == before
