"""Predictions beside what was measured, and models of drives and hosts that are fitted to measurements."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _native
from ._native import Device, InputError

__all__ = ["fit_device", "fit_host", "measured"]

_Path = Union[str, "os.PathLike[str]"]
#: A model, or one for each figure.
_Devices = Union[str, Device, Mapping[str, Union[str, Device]]]


def measured(
    source: Union[_Path, Sequence[_Path]],
    devices: _Devices,
    *,
    host: Optional[_Path] = None,
    cpus: Optional[int] = None,
    figures: Optional[Sequence[str]] = None,
    seconds: Union[str, float, None] = None,
    warmup: Union[str, float, None] = None,
    replicates: Optional[int] = None,
    verdicts: bool = False,
    scheduler: str = "none",
    jobs: Optional[int] = None,
) -> List[Dict[str, Any]]:
    """Predictions beside what was measured on real drives: the command ``dumbwaiter fidelity --measured``.

    Parameters
    ----------
    source
        A table (CSV), or fio's results (JSON): several of these ran together.
    devices
        The model that stands for the drive, or a dict with one for each figure of the table.
    host, cpus
        The host: the name of a profile or a file, and its CPUs (those of the file, else 10).
    figures
        The figures to answer; all where it is ``None``. ``"1"`` is also 1a and 1b.
    seconds, warmup
        Measured time and warm-up of each run; what its rates need where they are ``None``.
    replicates
        Runs of each row; 1, with verdicts 3.
    verdicts
        Also the verdict of a comparison for each condition.
    scheduler
        The scheduler under which fio's results were measured, which they do not say.
    jobs
        Runs at a time; all CPUs where it is ``None``.

    Returns
    -------
    A dict for each row, and behind them one for each verdict, as ``--json`` writes them.

    Raises
    ------
    InputError
        Bad input, named in the text. What cannot be run is in the rows, with the reason.
    """
    keywords: Dict[str, object] = {
        "devices": _models(devices),
        "host": _text(host),
        "cpus": cpus,
        "figures": _names("figures", figures),
        "seconds": seconds,
        "warmup": warmup,
        "replicates": replicates,
        "verdicts": verdicts,
        "scheduler": scheduler,
        "jobs": jobs,
    }
    return _native.measured(",".join(_sources(source)), keywords)


def fit_device(
    drive: Optional[_Path] = None,
    *,
    source: Union[_Path, Sequence[_Path], None] = None,
    length: Union[str, float, None] = None,
    destroy: Optional[_Path] = None,
    like: Optional[_Path] = None,
    figures: Optional[Sequence[str]] = None,
    parameters: Optional[Sequence[str]] = None,
    host: Optional[_Path] = None,
    cpus: Optional[int] = None,
    scheduler: Optional[str] = None,
    jobs: Optional[int] = None,
) -> Dict[str, Any]:
    """A model fitted to a drive, which is surveyed, or to published results: the command ``dumbwaiter devices fit``.

    Parameters
    ----------
    drive
        A block device, a file or the name of a model, to be surveyed. It is only read unless `destroy` names it.
    source
        In place of a drive: tables (CSV) or fio's results (JSON) to fit to; results that ran together are joined by commas.
    length
        Time of the survey at most: ``"2m"`` where it is ``None``.
    destroy
        The drive again: its data are lost. Writes are surveyed too then.
    like
        The model of the drive's class, from which a fit to published results starts (``"ssd:nvme-tlc"``).
    figures, parameters
        What of the tables to use, and which parameters to move; all that matter where they are ``None``.
    host, cpus, scheduler
        The host and the scheduler of the published results.
    jobs
        Simulations at a time; all CPUs where it is ``None``.

    Returns
    -------
    The document that ``--json`` writes: ``device_file`` is the model as a file, which ``devices=`` takes once it is stored.

    Raises
    ------
    InputError
        Bad input, named in the text.
    DeviceError
        The drive failed.
    """
    survey: Dict[str, object] = {"length": length, "destroy": _text(destroy)}
    published: Dict[str, object] = {
        "like": _text(like),
        "figures": _names("figures", figures),
        "parameters": _names("parameters", parameters),
        "host": _text(host),
        "cpus": cpus,
        "scheduler": scheduler,
        "jobs": jobs,
    }
    if (drive is None) == (source is None):
        raise InputError("expected a drive to survey, or source= with published results")
    if drive is not None:
        _without(published, "source")
        return _native.survey(drive, survey)
    _without(survey, "a drive")
    return _native.fit_device(_sources(source), published)


def fit_host(
    *,
    source: Union[_Path, Sequence[_Path], None] = None,
    devices: Optional[_Devices] = None,
    figures: Optional[Sequence[str]] = None,
    cpus: Optional[int] = None,
    scheduler: Optional[str] = None,
    parameters: Optional[Sequence[str]] = None,
    like: Optional[_Path] = None,
    name: Optional[str] = None,
    length: Union[str, float, None] = None,
    rounds: Optional[int] = None,
    jobs: Optional[int] = None,
) -> Dict[str, Any]:
    """A profile of what an I/O costs a machine's CPUs: of this one, which is measured, or of published results: the command
    ``dumbwaiter host fit``.

    Parameters
    ----------
    source
        Tables (CSV) or fio's results (JSON) of another machine. ``None``: this machine, which needs root and fio.
    devices, figures, cpus, scheduler
        With `source`: the drives, the figures to use, the CPUs of that machine (10) and the scheduler of fio's results.
    parameters
        The parameters to move; all that matter where it is ``None``.
    like
        The profile from which the fit starts (``"default"``).
    name
        The name of the new profile (``"fitted"``).
    length, rounds
        Without `source`: time of each run of fio (``"1s"``), and runs of each case (3).
    jobs
        Simulations at a time; all CPUs where it is ``None``.

    Returns
    -------
    The document that ``--json`` writes: ``host_file`` is the profile as a file, which ``host=`` takes once it is stored.

    Raises
    ------
    InputError
        Bad input, or no fio or no permission, named in the text.
    DeviceError
        A run failed.
    """
    both: Dict[str, object] = {"parameters": _names("parameters", parameters), "like": _text(like), "name": name, "jobs": jobs}
    here: Dict[str, object] = {"length": length, "rounds": rounds}
    published: Dict[str, object] = {
        "devices": None if devices is None else _models(devices),
        "figures": _names("figures", figures),
        "cpus": cpus,
        "scheduler": scheduler,
    }
    if source is None:
        _without(published, "source")
        return _native.fit_this_host({**both, **here})
    _without(here, "this machine")
    if devices is None:
        raise InputError("devices: expected the model of the drive on which the source was measured")
    return _native.fit_host(_sources(source), {**both, **published})


def _models(devices: _Devices) -> List[str]:
    if isinstance(devices, Mapping):
        return [f"{figure}={model}" for figure, model in devices.items()]
    return [str(devices)]


def _sources(source: Any) -> List[str]:
    return [os.fspath(source)] if isinstance(source, (str, os.PathLike)) else [os.fspath(path) for path in source]


def _names(keyword: str, names: Optional[Sequence[str]]) -> Optional[List[str]]:
    if isinstance(names, str):
        raise InputError(f"{keyword}: {names!r} was found; expected a list of texts")
    return None if names is None else list(names)


def _text(path: Optional[_Path]) -> Optional[str]:
    return None if path is None else os.fspath(path)


def _without(keywords: Dict[str, object], needs: str) -> None:
    for name, value in keywords.items():
        if value is not None:
            raise InputError(f"{name}: expected only with {needs}")
