"""Answers hold what the command prints, and libraries of tables read them."""

import json
import subprocess

import mmtwin
import pyarrow
import pytest
from mmtwin import command


def printed(*arguments):
    done = subprocess.run([command.path(), *map(str, arguments), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_an_answer_is_what_the_command_prints(scenario, results):
    answer = mmtwin.compare(scenario, seeds=3, results=results)
    assert answer.document == printed("compare", scenario, "--seeds", 3, "--results", results)
    assert answer.scenario == "tiny" and answer.seeds == [1, 2, 3]
    with pytest.raises(AttributeError, match="no metrik: .*variants"):
        answer.metrik


def test_tables_are_arrow_streams(scenario, results):
    table = pyarrow.table(mmtwin.compare(scenario, results=results))
    assert table.column_names[:3] == ["variant", "metric", "mean"]
    assert table.schema.field("p_value").type == pyarrow.float64(), "also where all are missing"
    scores = {row["variant"]: row["mean"] for row in table.to_pylist() if row["metric"] == "score"}
    assert set(scores) == {"pcp-base", "6.18"} and min(scores.values()) > 0
    polars = pytest.importorskip("polars")
    runs = polars.DataFrame(mmtwin.run(scenario, variants="6.18", seeds=2, results=results))
    assert runs.filter(polars.col("name") == "score").height == 2
    assert runs.filter(polars.col("kind") == "counters").height > 10


def test_curves_settings_and_verification(tmp_path):
    trace = tmp_path / "ids.txt"
    trace.write_text("\n".join(str(number * 7 % 50) for number in range(500)))
    curves = pyarrow.table(mmtwin.mrc(trace, policies=["lru", "belady"], sizes=[7, 50])).to_pylist()
    assert [(row["policy"], row["size_pages"], row["misses"]) for row in curves[:2]] == [("lru", 7, 500), ("lru", 50, 50)]
    swappiness = mmtwin.settings()["vm.swappiness"]
    assert (swappiness.default, swappiness.most) == ("60", 200) and "swap" in swappiness.description
    entries = pyarrow.table(mmtwin.verify("folios", recorded=True)).to_pylist()
    assert entries and all(row["kernel"] == row["twin"] for row in entries)


def test_a_sweep_says_what_to_set(scenario, results):
    over = {"vm.percpu_pagelist_high_fraction": [0, 8, 64]}
    sweep = mmtwin.sweep(scenario, over=over, variants="6.18", seeds=2, held_out=3, results=results)
    table = pyarrow.table(sweep)
    assert table.column_names[0] == "vm.percpu_pagelist_high_fraction" and table.num_rows == 3
    assert set(sweep.chosen) <= set(over)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: mmtwin.run("page_fault"), "no such scenario; most like it: page_fault1"),
        (lambda: mmtwin.run("page_fault1", set={"vm.swapines": 1}), "most like it: vm.swappiness"),
        (lambda: mmtwin.mrc("missing.bin"), "No such file"),
        (lambda: mmtwin.sweep("page_fault1", over={"vm.swappiness": []}), "vm.swappiness"),
        (lambda: mmtwin.sweep("page_fault1", engine="cloud"), "it takes local or ray"),
        (lambda: mmtwin.sweep("page_fault1", shards=3), 'engine="ray"'),
        (lambda: mmtwin.sweep("page_fault1", engine="ray"), "give results"),
    ],
)
def test_errors_have_the_words_of_the_command(ask, said):
    with pytest.raises(mmtwin.CommandError, match=said):
        ask()


def test_names_are_text():
    for ask in (lambda: mmtwin.run("page_fault1", variants=6.10), lambda: mmtwin.compare("page_fault1", variants=["6.6", 6.12])):
        with pytest.raises(TypeError, match='such as "6.10"'):
            ask()
    with pytest.raises(KeyError, match="most like it: vm.swappiness"):
        mmtwin.settings()["vm.swapines"]


def test_who_has_no_command_is_told(monkeypatch):
    monkeypatch.delenv("MMTWIN", raising=False)
    monkeypatch.setattr(command.sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(mmtwin.CommandMissing, match="pip install"):
        mmtwin.settings.__wrapped__()


def test_progress_is_shown_on_one_line(scenario, results, capfd):
    mmtwin.run(scenario, results=results, progress=True)
    assert "\n" not in capfd.readouterr().err
