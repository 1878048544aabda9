"""Sweeps on a Ray cluster: the same answer, also when a node is lost."""

import threading
import time

import mmtwin
import pytest
from mmtwin import sweeping

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

OVER = {"vm.percpu_pagelist_high_fraction": [0, 8, 16, 32, 64, 128]}


@pytest.fixture
def cluster():
    """A head and two nodes of one core each; tasks run on the two."""
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.nodes = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def sweep(scenario, results, **more):
    return mmtwin.sweep(scenario, over=OVER, variants="6.18", seeds=4, held_out=4, results=results, **more).document


def test_ray_and_one_machine_answer_the_same(cluster, scenario, tmp_path):
    far, near = (sweep(scenario, tmp_path / name, **more) for name, more in [("ray", {"engine": "ray", "shards": 5}), ("local", {})])
    assert far.pop("results") != near.pop("results")
    assert far == near


def test_the_cluster_makes_the_runs_of_all_stages(cluster, scenario, tmp_path, monkeypatch):
    results = tmp_path / "ray"
    when_asked = []
    ask = sweeping.command.ask

    def noting(*arguments):
        when_asked.append(len(runs_in(results)))
        return ask(*arguments)

    monkeypatch.setattr(sweeping.command, "ask", noting)
    sweep(scenario, results, method="halving", engine="ray", shards=3)
    assert when_asked == [len(runs_in(results))], "nothing is left for the driver"


def test_a_lost_node_costs_its_unfinished_runs_only(cluster, scenario, tmp_path):
    text = scenario.read_text().replace("tasks = 2", "tasks = 64").replace("milliseconds = 40", "milliseconds = 400")
    scenario.write_text(text)
    results = tmp_path / "ray"
    kept = []

    def lose():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(runs_in(results)) < 4:
            time.sleep(0.02)
        kept.extend(runs_in(results))
        cluster.remove_node(cluster.nodes[0], allow_graceful=False)

    loses = threading.Thread(target=lose)
    loses.start()
    far = sweep(scenario, results, engine="ray", shards=6)
    loses.join()
    assert 4 <= len(kept) < len(runs_in(results)), "the node was lost in the middle"
    assert far.pop("results")
    near = sweep(scenario, tmp_path / "local")
    near.pop("results")
    assert far == near


def runs_in(results):
    return list(results.rglob("*.parquet"))
