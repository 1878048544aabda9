"""The examples of the guide run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/src/guide/python.md"


def test_examples_of_the_guide_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 4
    names = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "most like it: vm.swappiness" in printed and "high_fraction" in printed
