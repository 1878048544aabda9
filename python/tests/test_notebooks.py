"""The notebooks run, and print and draw what is kept in them.

``MMTWIN_WRITE_NOTEBOOKS=1`` writes into them what they print and draw now.
"""

import os
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
for needed in ("altair", "ipykernel", "polars"):
    pytest.importorskip(needed)

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))
CHART = "application/vnd.vegalite.v5+json"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(path, tmp_path):
    notebook = nbformat.read(path, 4)
    kept, metadata = shown(notebook), notebook.metadata.copy()
    # Results fall into the directory that cells run in.
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, record_timing=False, coalesce_streams=True, resources=place).execute()
    if os.environ.get("MMTWIN_WRITE_NOTEBOOKS"):
        write(notebook, metadata, path)
    else:
        assert shown(notebook) == kept


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_nothing_of_the_machine_that_ran_it(path):
    text = path.read_text()
    assert len(text.encode()) < 150_000
    assert not [word for word in ("/home", "/root", "/tmp", '"execution":', "left ?") if word in text]
    assert CHART in text


def shown(notebook):
    """What a reader sees below each cell: texts, tables as text, charts as data."""
    return [[seen(output) for output in cell.outputs if not is_empty(output)] for cell in notebook.cells if cell.cell_type == "code"]


def seen(output):
    if "data" not in output:
        return output.get("text", output.get("traceback"))
    # The schema names the version of Altair.
    chart = {key: value for key, value in output.data.get(CHART, {}).items() if key != "$schema"}
    return chart or output.data.get("text/plain")


def is_empty(output):
    """Whether nothing is to be seen, as of progress when the command has ended."""
    return output.get("data") == {}


def write(notebook, metadata, path):
    notebook.metadata = metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_empty(output)]
    nbformat.write(notebook, path)
