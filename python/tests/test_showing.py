"""Progress is a line of the terminal, or in a notebook a bar of which nothing is left."""

import types

import pytest
from mmtwin import showing

LINE = "3/15 runs  kbuild, <mine>, seed 1  virtual time 0.5 s, left 12 s, real 10 s"

FAKE = """#!/bin/sh
echo '1/2 runs  tiny, 6.18, seed 1  left 10 s' >&2
echo '2/2 runs  tiny, 6.18, seed 2  left 0 s' >&2
echo '{"runs": []}'
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command that says twice how far it is."""
    path = tmp_path / "mmtwin"
    path.write_text(FAKE)
    path.chmod(0o755)
    monkeypatch.setenv("MMTWIN", str(path))


class Kernel:
    """Keeps what is displayed, as a kernel of Jupyter sends it."""

    def __init__(self):
        self.sent = []
        self.kernel = self

    def display(self, data, *, raw, display_id):
        assert raw and display_id
        self.sent.append(("display", data))
        return types.SimpleNamespace(update=lambda data, *, raw: self.sent.append(("update", data)))


def test_a_notebook_has_one_bar_which_goes_away(monkeypatch):
    display = pytest.importorskip("IPython.display")
    kernel = Kernel()
    monkeypatch.setattr("IPython.get_ipython", lambda: kernel)
    monkeypatch.setattr(display, "display", kernel.display)
    bar = showing.display(None)
    bar.show(LINE)
    bar.show(LINE.replace("3/15", "4/15"))
    bar.clear()
    (first, shown), (second, changed), last = kernel.sent
    assert (first, second, last) == ("display", "update", ("update", {}))
    assert shown["text/plain"] == LINE
    assert shown["text/html"].startswith('<progress value="3" max="15"></progress> 3/15 runs  kbuild, &lt;mine&gt;, seed 1')
    assert '<progress value="4" max="15">' in changed["text/html"]


def test_what_is_not_shown_is_not_cleared(monkeypatch, capfd):
    pytest.importorskip("IPython.display")
    kernel = Kernel()
    monkeypatch.setattr("IPython.get_ipython", lambda: kernel)
    showing.display(True).clear()
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    showing.display(True).clear()
    assert kernel.sent == [] and capfd.readouterr().err == ""


def test_who_does_not_look_sees_nothing(monkeypatch):
    assert showing.display(False) is None
    monkeypatch.setattr("sys.stderr", types.SimpleNamespace(isatty=lambda: False))
    assert showing.display(None) is None
    assert isinstance(showing.display(True), showing.Terminal)
    monkeypatch.setattr("sys.stderr", types.SimpleNamespace(isatty=lambda: True))
    assert isinstance(showing.display(None), showing.Terminal)


def test_a_cell_keeps_what_it_printed_and_nothing_of_the_progress(command):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cell = nbformat.v4.new_code_cell("import mmtwin\nprint('before')\nprint(mmtwin.run('tiny').runs)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, record_timing=False).execute()
    before, bar, after = cell.outputs
    assert (before.text, after.text) == ("before\n", "[]\n")
    assert bar.output_type == "display_data" and bar.data == {}
