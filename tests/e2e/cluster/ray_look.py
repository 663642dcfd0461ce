"""Prints the state of a Ray cluster as JSON: ray_look.py ADDRESS NAMESPACE [NAME of an actor to start beside ours]"""

import json
import sys

import ray

address, namespace, *other = sys.argv[1:]
ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level="error")
named = ray.util.list_named_actors(all_namespaces=True)
if other:

    @ray.remote(num_cpus=0)
    class Other:
        def answer(self):
            return 42

    actor = Other.options(name=other[0], lifetime="detached", namespace="theirs").remote()
    assert ray.get(actor.answer.remote()) == 42
places = {}
for one in named:
    if one["namespace"] == namespace:
        try:
            places[one["name"]] = ray.get(ray.get_actor(one["name"]).place.remote(), timeout=5)
        except ray.exceptions.RayError:  # the actor is restarting
            pass
groups = [group["name"] for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]
print(json.dumps({"places": places, "named": [[one["namespace"], one["name"]] for one in named], "groups": groups}))
