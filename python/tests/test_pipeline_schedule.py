"""Tests the schedules and cuts of pipelines, without jax."""

import itertools
import random

import pytest

from pathways._pipeline import partition, schedule as s

SIZES = list(itertools.product((1, 2, 3, 4, 8), (1, 2, 3, 4, 7, 16)))


@pytest.mark.parametrize("name", s.SCHEDULES)
@pytest.mark.parametrize("stages, microbatches", SIZES)
def test_every_action_stands_once_and_after_what_it_needs(name, stages, microbatches):
    schedule = s.SCHEDULES[name](stages, microbatches)
    everything = {s.Action(kind, i, m) for kind in (s.FORWARD, s.BACKWARD) for i in range(stages) for m in range(microbatches)}
    order = s.order(schedule)
    assert len(order) == len(everything) and set(order) == everything
    place = {action: i for i, action in enumerate(order)}
    for action in order:
        assert all(place[needed] < place[action] for needed in s.needs(action, stages))
    for one in schedule:  # the common order agrees with the order of each stage
        assert [action for action in order if action.stage == one[0].stage] == one


@pytest.mark.parametrize("stages, microbatches", SIZES)
def test_how_many_activations_a_stage_holds(stages, microbatches):
    assert s.peak_live(s.gpipe(stages, microbatches)) == [microbatches] * stages
    assert s.peak_live(s.one_forward_one_backward(stages, microbatches)) == [min(stages - i, microbatches) for i in range(stages)]


@pytest.mark.parametrize("name", s.SCHEDULES)
@pytest.mark.parametrize("stages, microbatches", SIZES)
@pytest.mark.parametrize("backward", (1.0, 2.0, 2.7))
def test_the_bubble_is_that_of_the_literature(name, stages, microbatches, backward):
    bubble = s.bubble(s.SCHEDULES[name](stages, microbatches), 1.0, backward)
    assert bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))


@pytest.mark.parametrize("places, rounds, microbatches", [(1, 3, 2), (2, 2, 4), (4, 1, 8), (4, 4, 16), (3, 2, 9), (4, 2, 6)])
def test_interleaved_every_action_stands_once_and_after_what_it_needs(places, rounds, microbatches):
    stages = places * rounds
    schedule = s.make("interleaved", [f"place {i % places}" for i in range(stages)], microbatches)
    order = s.order(schedule)
    assert sorted(order) == sorted(s.Action(kind, i, m) for kind in (s.FORWARD, s.BACKWARD) for i in range(stages) for m in range(microbatches))
    place = {action: i for i, action in enumerate(order)}
    assert all(place[needed] < place[action] for action in order for needed in s.needs(action, stages))
    for p, one in enumerate(schedule):
        assert [action for action in order if action.stage % places == p] == one
    if microbatches >= places:
        assert s.bubble(schedule) == pytest.approx((places - 1) / (rounds * microbatches + places - 1))


def test_what_comes_round_again_has_time_to_spare():
    places, rounds, microbatches = 3, 4, 8
    schedule = s.make("interleaved", [f"place {i % places}" for i in range(places * rounds)], microbatches)
    intervals = {one.action: one for one in s.timeline(schedule, 1.0, 1.0)}
    for action, one in intervals.items():
        for needed in s.needs(action, places * rounds):
            if needed.kind == action.kind and (needed.stage % places, action.stage % places) in ((places - 1, 0), (0, places - 1)):
                assert one.start - intervals[needed].end == microbatches - places


def test_an_interleaved_schedule_goes_round():
    assert s.make("gpipe", ["a", "a"], 3) == s.gpipe(2, 3)
    for stages in ("aabb", "abba", "abcab"):
        with pytest.raises(ValueError, match="in the same order in every round"):
            s.make("interleaved", list(stages), 4)


def test_one_slow_stage_makes_the_others_wait():
    schedule = s.one_forward_one_backward(4, 16)
    assert s.bubble(schedule, [1, 1, 3, 1], [2, 2, 6, 2]) > 2 * s.bubble(schedule)


def test_a_schedule_in_which_nothing_can_go_on_is_refused():
    schedule = s.gpipe(2, 1)
    schedule[1].reverse()
    with pytest.raises(ValueError, match="the schedule is stuck"):
        s.timeline(schedule)


def best(costs, stages):
    cuts = itertools.combinations(range(1, len(costs)), stages - 1)
    return min(max(sum(costs[a:b]) for a, b in zip((0, *cut), (*cut, len(costs)))) for cut in cuts)


@pytest.mark.parametrize("seed", range(50))
def test_cuts_are_as_even_as_they_can_be(seed):
    rng = random.Random(seed)
    costs = [rng.choice((0, 1, 1, 2, 5, 9)) * rng.random() for _ in range(rng.randint(4, 12))]
    stages = rng.randint(1, 4)
    starts = partition.split(costs, stages, slack=0)
    assert starts[0] == 0 and sorted(set(starts)) == starts and len(starts) == stages
    dearest = max(sum(costs[a:b]) for a, b in zip(starts, [*starts[1:], len(costs)]))
    assert dearest <= best(costs, stages) * 1.002


def test_among_even_cuts_that_which_sends_least():
    crossing = [0, 9, 9, 9, 1, 9, 9, 9, 9, 9]
    assert partition.split([1] * 10, 2, crossing, slack=0.25) == [0, 4]
    assert partition.split([1] * 10, 2, crossing, slack=0) == [0, 5]


def test_more_stages_than_layers():
    with pytest.raises(ValueError, match="3 layers cannot fill 4 stages"):
        partition.split([1, 1, 1], 4)
