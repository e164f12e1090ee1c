"""Tables in and out: pandas, polars, pyarrow, duckdb; without a copy; bad ones refused by name."""

import subprocess
import sys
import textwrap

import pytest

import dumbwaiter as dw

numpy = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")

N = 1000


def frame(**columns):
    rng = numpy.random.default_rng(1)
    frame = pandas.DataFrame(
        {
            "time_us": numpy.arange(N) * 100,
            "op": rng.choice(["read", "write"], N),
            "offset_bytes": rng.integers(0, 1 << 20, N) * 4096,
            "size_bytes": 4096,
        }
    )
    return frame.assign(**columns)


def kinds():
    yield "pandas", lambda table: table
    pyarrow = pytest.importorskip("pyarrow")
    yield "pyarrow", pyarrow.Table.from_pandas
    yield "dictionary", lambda table: pyarrow.Table.from_pandas(table.assign(op=table.op.astype("category")))
    polars = pytest.importorskip("polars")
    yield "polars", polars.from_pandas
    yield "dict of arrays", lambda table: {name: table[name].to_numpy() for name in table.columns}
    yield "dict of series", lambda table: {name: table[name] for name in table.columns}
    yield "dict of lists", lambda table: {name: table[name].tolist() for name in table.columns}
    yield "record batches", lambda table: pyarrow.Table.from_batches(pyarrow.Table.from_pandas(table).to_batches(100)[2:])


KINDS = dict(kinds())


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_a_trace(kind):
    table = KINDS[kind](frame())
    result = dw.compare(table, devices=["ssd:850pro-256"], schedulers=["none"], progress=None)
    rows = len(next(iter(table.values()))) if isinstance(table, dict) else len(table)
    assert result.runs["completed"] == [rows]


def test_every_kind_of_table_gives_the_same_result():
    def document(table):
        return dw.compare(table, devices=["ssd:850pro-256"], schedulers=["none", "bfq"], progress=None).to_json()

    assert len({document(convert(frame())) for name, convert in KINDS.items() if name != "record batches"}) == 1


def test_columns_of_a_dict_have_one_length():
    columns = {name: frame()[name].to_numpy() for name in frame().columns}
    with pytest.raises(dw.InputError, match="has 7 rows, and time_us has 1000") as error:
        dw.compare({**columns, "size_bytes": columns["size_bytes"][:7]})
    assert error.value.key == "size_bytes"
    with pytest.raises(dw.InputError, match="size_bytes.*2 dimensions"):
        dw.compare({**columns, "size_bytes": columns["size_bytes"].reshape(2, -1)})
    with pytest.raises(dw.InputError, match="op.*row 1: null"):
        dw.compare({**columns, "op": ["read", None] * (N // 2)})


def test_columns_of_many_types_are_the_same_trace():
    """Nullable, Arrow-backed, categorical, sparse, odd widths, objects: the numbers count."""
    pyarrow = pytest.importorskip("pyarrow")

    def document(table):
        return dw.compare(table, devices=["ssd:850pro-256"], schedulers=["none"], progress=None).to_json()

    plain, expected = frame(), document(frame())
    for column, kinds in {
        "time_us": ["Int64", "int64[pyarrow]", ">i8", "float64", "Float64", "longdouble", object, "Sparse[int64]", "category"],
        "size_bytes": ["uint16", "Int32", "category", object],
        "op": ["category", "string", "string[pyarrow]", object],
    }.items():
        for kind in kinds:
            assert document(plain.assign(**{column: plain[column].astype(kind)})) == expected, (column, kind)
    columns = {name: plain[name] for name in plain.columns}
    for values in [pandas.Index(plain.time_us), plain.time_us.array, pyarrow.array(plain.time_us), numpy.ma.masked_array(plain.time_us)]:
        assert document({**columns, "time_us": values}) == expected, type(values)
    assert document(plain.iloc[::-1].iloc[::-1]) == expected


def test_a_null_in_any_kind_of_array_is_named():
    times = list(range(N))
    masked = numpy.ma.masked_array(times, mask=[row == 3 for row in times])
    nullable = pandas.array([None if row == 3 else row for row in times], dtype="Int64")
    for values in [masked, nullable, pandas.Series(nullable)]:
        with pytest.raises(dw.InputError, match="time_us.*row 3: null"):
            dw.compare({**{name: frame()[name] for name in frame().columns}, "time_us": values})


def test_times_of_day_are_refused_with_what_to_do():
    for times in [pandas.date_range("2026-01-01", periods=N, freq="ms", tz="Europe/Berlin"), pandas.to_timedelta(range(N))]:
        with pytest.raises(dw.InputError, match="time_us.*Timedelta"):
            dw.compare(frame(time_us=times))


BAD = [
    ("time_us", {"time_us": [None] * N}, "null"),
    ("size_bytes", {"size_bytes": -1}, "row 0: -1"),
    ("time_us", {"time_us": numpy.arange(N)[::-1]}, "row 1: .* after .* ascending"),
    ("op", {"op": 3}, "words"),
    ("op", {"op": ["read"] * 7 + ["frob"] * (N - 7)}, "row 7: .*frob"),
    ("offset_bytes", {"offset_bytes": 1.5}, "whole numbers"),
    ("offset_bytes", {"offset_bytes": [4096] * 5 + [None] * (N - 5)}, "row 5: null|whole numbers"),
    ("time_us", {"time_us": pandas.to_datetime(numpy.arange(N))}, "datetime|times of day|Timestamp"),
    ("size_bytes", {"size_bytes": "4k"}, "text|numbers"),
    ("time_us", {"time_us": [numpy.inf] * N}, "row 0: inf"),
]


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars", "dict of arrays", "dict of lists"])
@pytest.mark.parametrize("column, change, said", BAD, ids=[f"{bad[0]}-{i}" for i, bad in enumerate(BAD)])
def test_bad_tables_are_refused_by_name(column, change, said, kind):
    with pytest.raises(dw.InputError, match=said) as error:
        dw.compare(KINDS[kind](frame(**change)), schedulers=["none"])
    assert error.value.key == column and column in str(error.value)


def test_missing_columns_are_named():
    for column in ["time_us", "op", "offset_bytes", "size_bytes"]:
        with pytest.raises(dw.InputError, match="missing") as error:
            dw.compare(frame().drop(columns=column))
        assert error.value.key == column
    with pytest.raises(dw.InputError, match="no rows"):
        dw.compare(frame()[:0])
    # Without times the load is a closed loop.
    result = dw.compare(frame().drop(columns="time_us"), devices=["null:0us"], schedulers=["none"], depth=4, progress=None)
    assert result.runs["completed"] == [N]


def test_results_are_read_without_a_copy():
    result = dw.compare(frame(), devices=["null:0us"], schedulers=["none", "noop"], progress=None)
    pyarrow = pytest.importorskip("pyarrow")
    runs = result.runs
    first, second = pyarrow.table(runs), pyarrow.table(runs)
    for column in ["iops", "completed"]:
        addresses = [table[column].chunk(0).buffers()[1].address for table in (first, second)]
        assert addresses[0] == addresses[1], "each reader sees the same memory"
    del runs
    assert first["scheduler"].to_pylist() == ["none", "noop"]
    assert first.to_pydict() == result.runs.to_pydict()
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(result.latency).height == 2 * 3 * 5
    duckdb = pytest.importorskip("duckdb")
    ranking = result.ranking
    assert duckdb.sql("select count(*) from ranking").fetchall() == [(2,)]
    assert list(result.tenants.to_pandas().tenant) == ["default", "default"]


def test_histograms_merge_and_pickle():
    import pickle

    histogram = dw.Histogram([100.0] * 98 + [2000.0, 3000.0])
    assert (len(histogram), round(histogram.percentile(50))) == (100, 100) and 3000 <= histogram.percentile(100) < 3004
    other = dw.Histogram()
    other.add(1.5, count=100)
    other.merge(histogram)
    assert len(other) == 200 and sum(other.counts()["count"]) == 200 and other.percentile(50) < 1.51
    again = pickle.loads(pickle.dumps(other))
    assert again.counts().to_pydict() == other.counts().to_pydict()
    other.merge(other)
    assert len(other) == 400 and str(dw.Histogram().percentile(99)) == "nan"
    for wrong in [-1.0, float("nan"), float("inf")]:
        with pytest.raises(dw.InputError, match="expected a number from 0"):
            dw.Histogram([1.0, wrong])
    with pytest.raises(dw.InputError, match="percentile 101"):
        other.percentile(101)


def test_traces_are_read_in_batches_and_written(tmp_path):
    path = tmp_path / "trace.csv"
    assert dw.trace.write(frame(), path, "columns", columns="time_us,op,offset_bytes,size_bytes") == N
    stat = dw.trace.stat(path, columns="time_us,op,offset_bytes,size_bytes")
    assert stat["records"] == N
    stream = dw.trace.read(path, columns="time_us,op,offset_bytes,size_bytes")
    tables = list(stream)
    for wrong, said in [(None, "NoneType was found"), (frame().op, "a table with columns")]:
        with pytest.raises(dw.InputError, match=said):
            dw.trace.write(wrong, path)
    assert sum(map(len, tables)) == N and tables[0]["offset_bytes"] == list(frame().offset_bytes)


def test_a_million_rows_need_little_more_than_the_table():
    code = textwrap.dedent(
        """
        import numpy, pandas, resource, dumbwaiter as dw
        n = 1_000_000
        rng = numpy.random.default_rng(1)
        frame = pandas.DataFrame({"time_us": numpy.arange(n), "op": pandas.Categorical.from_codes(rng.integers(0, 2, n), ["read", "write"]),
                                  "offset_bytes": rng.integers(0, 1 << 20, n) * 4096, "size_bytes": 4096})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = dw.compare(frame, devices=["null:0us"], schedulers=["none"], progress=None)
        assert result.runs["completed"] == [n]
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
    )
    kilobytes = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert kilobytes < 50_000
