import pytest


@pytest.fixture
def results(tmp_path):
    """A results directory of its own."""
    return tmp_path / "results"


@pytest.fixture
def scenario(tmp_path):
    """A scenario of a tenth of a second."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        "name = 'tiny'\ndescription = 'two tasks'\nevidence = 'made up'\nmachine = 'intel-2s-128'\nseries = 'pcp'\n"
        "variants = ['pcp-base', '6.18']\nseeds = 2\nmetrics = ['score', 'lock']\n"
        "[workload]\nkind = 'host'\nwarm_milliseconds = 10\nmilliseconds = 40\n"
        "[[workload.programs]]\nname = 'tasks'\nprogram = { kind = 'page-faults', tasks = 2, mib = 8 }\n"
    )
    return path
