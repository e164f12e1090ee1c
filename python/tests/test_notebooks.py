"""Every notebook of the documentation runs, and what its text concludes is true of its figures."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))

#: What the text says of the results, in the names of the notebook.
CLAIMS = {
    "quick-start": """
p99 = runs.groupby(['device', 'scheduler']).p99_us.mean()
sata, optane = p99['ssd:850pro-256'], p99['ull:optane-p4801x']
assert sata.idxmin() == 'kyber' and 0.15 < sata['kyber'] / sata['none'] < 0.35 and optane.max() < 1.05 * optane.min()
""",
    "my-trace": """
by = latency[latency.op == 'read'].pivot_table(index='scheduler', columns='percentile', values='latency_us')
assert by[50].between(12_500, 14_500).all() and by[99].idxmin() == 'mq-deadline' and by[99].idxmax() == 'bfq' and by[99].min() > 1e6
""",
    "weights": """
fair, blind = errors.loc[['bfq', 'mqfq', 'headway']], errors.loc[['none', 'mq-deadline']]
assert fair.max().max() <= 0.03 and blind.max().max() > 0.2
iops = rows.groupby('scheduler').iops.mean() / rows[rows.scheduler == 'none'].iops.mean()
assert 0.93 < iops['bfq'] < 0.97 and iops[['mqfq', 'headway']].min() > 0.98
""",
    "write-a-scheduler": """
assert means['p99_us']['lookups']['Shortest'] < 0.25 * means['p99_us']['lookups']['none']
assert 0.25 < means['mb_per_s']['scan']['Shortest'] / means['mb_per_s']['scan']['none'] < 0.42
assert means['p99_us']['lookups']['mq-deadline'] > 450_000
""",
    "learn-to-switch": """
chosen = {name: env.schedulers[int(row.argmax())] for name, row in zip(states, values)}
assert chosen['sequential'] == 'anticipatory' != chosen['random'] and total > 0
""",
    "latency-model": """
mean = runs.set_index('scheduler').mean_us
assert mean['sjf with the forest'] < 0.6 * mean['none'] and abs(mean['sjf'] / mean['sjf with the forest'] - 1) < 0.2
""",
    "paper-figure": """
by = rows.pivot_table(index='task.reader.count', columns='completion', values=['mb_per_s', 'busy'])
rates, busy = by['mb_per_s'], by['busy']
assert (rates.loc[:8].idxmax(axis=1) == 'poll').all() and (rates.loc[:8, 'hybrid'] > 0.9 * rates.loc[:8, 'poll']).all()
assert (busy.loc[:8, 'hybrid'] < 0.8 * busy.loc[:8, 'poll']).all() and busy.loc[8, 'poll'] > 7.5
assert rates.loc[16, 'poll'] < rates.loc[16, 'interrupt']
""",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_its_conclusions_hold(path, tmp_path):
    for needed in ["ipykernel", "matplotlib", "pandas", "gymnasium"]:
        pytest.importorskip(needed)
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(CLAIMS[path.stem]))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
