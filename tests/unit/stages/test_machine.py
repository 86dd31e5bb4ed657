import shutil
from collections import namedtuple

from gmts.stages import machine
from gmts.stages.machine import check_machine

Usage = namedtuple("Usage", ["total", "used", "free"])


def found(root, device="cpu"):
    return {finding.name: finding for finding in check_machine(root, device)}


def test_this_machine_can_run_the_tests(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    findings = found(tmp_path)
    assert list(findings) == ["python", "packages", "disk", "device", "offline"]
    assert all(finding.good and not finding.remedy for finding in findings.values())


def test_what_is_wrong_comes_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(machine, "_PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setattr(machine.sys, "version_info", (3, 14, 0))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(9, 9, 2**30))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    findings = found(tmp_path, device="cuda")
    assert not any(finding.good for finding in findings.values())
    assert "PYTHON=python3.11" in findings["python"].remedy
    assert findings["packages"].found.endswith("no no-such-package")
    assert findings["disk"].found.startswith("1.0 GiB free")
    assert "gmts clean" in findings["disk"].remedy
    assert "runtime.device=cpu" in findings["device"].remedy
    assert "HF_HUB_OFFLINE" in findings["offline"].found
