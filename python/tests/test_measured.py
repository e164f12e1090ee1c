"""Predictions beside measurements, and fits: the command's documents; bad input."""

import json
import subprocess

import pytest

import dumbwaiter as dw

CASES = """\
figure,condition,scheduler,devices,role,rw,bs,iodepth,numjobs,iops,lat_mean_us,cpu_us_per_io
f,sleeping,none,1,reads,randread,4k,1,1,40000,24,9
f,saturated,none,1,reads,randread,4k,64,1,250000,250,4
f,saturated,mq-deadline,1,reads,randread,4k,64,1,200000,310,5
f,two kept back,none,1,reads,randread,4k,64,2,500000,250,4
"""
DRIVE = "null:0us?latency_ns=20000"


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(CASES)
    return path


def of_command(command, *words):
    run = subprocess.run([command, *words, "--json", "-"], capture_output=True, text=True, check=True)
    document = json.loads(run.stdout)
    if isinstance(document, dict):
        document.pop("schema")
    return document


def test_predictions_are_the_commands(command, cases):
    rows = of_command(command, "fidelity", "--measured", str(cases), "--device", DRIVE, "--host", "icpe24", "--verdicts")
    assert dw.measured(cases, DRIVE, host="icpe24", verdicts=True) == rows
    by_figure = {"f": dw.Device.load("null:0us").replace(latency_ns=20000)}
    assert dw.measured([str(cases)], by_figure, host="icpe24", figures=["f"], verdicts=True, jobs=1) == rows
    assert [row["scheduler"] for row in rows[:3]] == ["none", "none", "mq-deadline"]
    assert rows[-1]["decision"]


def test_fits_to_published_results_are_the_commands(command, cases):
    words = ["--from", str(cases), "--figure", "f", "--parameters", "latency_ns", "--like", "null:0us", "--host", "icpe24"]
    fit = dw.fit_device(source=cases, figures=["f"], parameters=["latency_ns"], like="null:0us", host="icpe24")
    assert fit == of_command(command, "devices", "fit", *words)
    assert "latency_ns" in fit["device_file"]
    words = ["--from", str(cases), "--device", DRIVE, "--parameters", "work_percent", "--like", "icpe24", "--cpus", "4"]
    fit = dw.fit_host(source=cases, devices=DRIVE, parameters=["work_percent"], like="icpe24", cpus=4)
    assert fit == of_command(command, "host", "fit", *words)
    assert "name = \"fitted\"" in fit["host_file"]


def test_a_survey_of_a_model_is_the_commands(command, tmp_path):
    fit, other = dw.fit_device("hdd:st1000dm003"), of_command(command, "devices", "fit", "hdd:st1000dm003")
    fit.pop("schema")
    assert fit.pop("seconds") > 0 and other.pop("seconds") > 0
    assert fit == other
    path = tmp_path / "own.toml"
    path.write_text(fit["device_file"])
    assert dw.Device.load(path).name


def test_profiles_of_hosts():
    profiles = {profile["name"]: profile for profile in dw.hosts()}
    assert profiles["icpe24"]["mhz"] == 2400 and profiles["icpe24"]["file"].startswith("# " + profiles["icpe24"]["about"])


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: dw.measured("no.csv", DRIVE), "no.csv: No such file"),
        (lambda: dw.measured("no.csv", "ssd:mine"), "ssd:mine"),
        (lambda: dw.measured("no.csv", DRIVE, host="mine"), "mine"),
        (lambda: dw.measured("no.csv", DRIVE, cpus=0), "cpus = 0: expected a number from 1"),
        (lambda: dw.measured("no.csv", DRIVE, seconds=0), "seconds = 0: expected a time above 0"),
        (lambda: dw.measured("no.csv", DRIVE, figures="11a"), "figures: '11a' was found; expected a list"),
        (lambda: dw.measured("no.csv", DRIVE, jobs=0), "jobs = 0"),
        (lambda: dw.fit_device(), "expected a drive to survey, or source="),
        (lambda: dw.fit_device("/nothing"), "/nothing"),
        (lambda: dw.fit_device("/nothing", like="ssd:nvme-tlc"), "like: expected only with source"),
        (lambda: dw.fit_device("/nothing", destroy="/other"), "destroy names /other, but the drive is /nothing"),
        (lambda: dw.fit_device(source="no.csv", length="1m"), "length: expected only with a drive"),
        (lambda: dw.fit_host(source="no.csv"), "devices: expected the model"),
        (lambda: dw.fit_host(length="1ms"), "expected at least 100ms"),
        (lambda: dw.fit_host(rounds=0), "rounds = 0: expected a number from 1 to 100"),
        (lambda: dw.fit_host(cpus=2), "cpus: expected only with source"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(dw.InputError, match=said):
        call()
