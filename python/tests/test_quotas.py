"""Tests what `pathways quota` sends and shows, without a cluster."""

import argparse

import pytest

from pathways._cluster import admin
from pathways._commands import quotas


@pytest.fixture
def asked(monkeypatch):
    """Returns the questions that were asked."""
    questions = []

    def ask(address, user=None, limits=None):
        questions.append((address, user, limits))
        return {"quotas": [], "users": []}

    monkeypatch.setattr(admin, "quotas", ask)
    return questions


def words(**given):
    fields = {"address": "head:8470", "name": "default", "json": False, "user": "ada", "remove": False, **dict.fromkeys(quotas.LIMITS), **given}
    return argparse.Namespace(**fields)


def test_only_the_named_limits_change(asked):
    quotas.change(words(sessions="2", weight="none"))
    assert asked == [("head:8470", "ada", {"sessions": "2", "weight": "none"})]


def test_remove_takes_away_what_is_not_given(asked):
    quotas.change(words(remove=True, sessions="2"))
    assert asked == [("head:8470", "ada", {"sessions": "2", **dict.fromkeys(list(quotas.LIMITS)[1:], "none")})]
    assert set(quotas.LIMITS) == {"sessions", "device_seconds", "weight", "priority", "devices", "device_memory", "host_memory", "host_processes"}


def test_nothing_to_set_is_a_mistake(asked):
    with pytest.raises(ValueError, match="name a limit"):
        quotas.change(words())
    assert asked == []


def test_limits_and_use_are_shown_side_by_side():
    found = {"quotas": [{"user": "*", "sessions": 4}, {"user": "ada", "device_seconds": 3600.0, "priority": -1, "devices": 8, "device_memory": 1 << 20}],
             "users": [{"user": "ada", "sessions": 2, "device_seconds": 1234.56, "devices": 3, "device_memory": 4096, "host_memory": 0, "host_processes": 1},
                       {"user": "bob", "sessions": 1, "device_seconds": 0.0, "devices": 1}]}
    head, everybody, ada, bob = quotas.text(found).splitlines()
    assert head.split()[:2] == ["USER", "SESSIONS"]
    assert everybody.split() == ["*", "4", *"-------"]
    assert ada.split() == ["ada", "2", "1,234.6", "of", "3,600", "-", "-1", "3", "of", "8", "4,096", "of", "1,048,576", "0", "1"]
    assert bob.split() == ["bob", "1", "0", "-", "-", "1", "-", "-", "-"]
    assert quotas.text({"quotas": [], "users": []}) == "No user has a limit."
