from __future__ import annotations

import json
import subprocess
import sys

import pytest

import harsanyinet
from harsanyinet.cli import main


@pytest.fixture
def model(tmp_path):
    pytest.importorskip("torch")
    net = harsanyinet.HarsanyiMLP(4, 2, width=10, gate="presence", seed=0).eval()
    net.save(tmp_path / "model.hnet")
    (tmp_path / "rows.csv").write_text("0.1,0.2,-0.3,4\n1,,2,3\n")
    return tmp_path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_verify(model, capsys):
    code, out, err = run(capsys, "verify", model / "model.hnet", model / "rows.csv", "-o", model / "certificate.json")
    assert code == 0
    assert out.startswith("PASSED: 2 rows, 4 players, 2 outputs")
    assert err == ""
    assert json.loads((model / "certificate.json").read_text())["passed"] is True
    code, out, _ = run(capsys, "verify", model / "model.hnet", model / "rows.csv", "--double", "--max-rows", 1)
    assert code == 0
    assert "tolerance 1e-12" in out
    assert "PASSED: 1 rows" in out


def test_huge_integers_and_one_column(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    harsanyinet.HarsanyiMLP(1, 1, gate="presence", dtype=torch.float64).eval().save(tmp_path / "m.hnet")
    (tmp_path / "rows.csv").write_text("1\n\n123456789012345678901234567890\n")
    code, out, err = run(capsys, "verify", tmp_path / "m.hnet", tmp_path / "rows.csv")
    assert (code, err) == (0, "")
    assert out.startswith("PASSED: 3 rows")  # the empty line is a missing value


def test_verify_fails_with_exit_code_1(model, capsys, monkeypatch):
    wrong = lambda self, zs: self.base + sum(z.sum((1, 2)) for z in zs)[:, None]  # noqa: E731
    monkeypatch.setattr(harsanyinet.HarsanyiMLP, "read", wrong)
    code, out, _ = run(capsys, "verify", model / "model.hnet", model / "rows.csv")
    assert code == 1
    assert out.startswith("FAILED")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n", "must have 4 columns, as the model does, however: 3"),
        ("a,b,c,d\n1,2,3,4\n", "must hold numbers only and no header, however: 'a' in line 1"),
        ("1,2,3,4\n1,2,3,x\n", "however: 'x' in line 2"),
        ("", "must be a CSV of numbers without a header, however: No columns to parse"),
        ("1,2,3,4\n1,2,3,4,5\n", "must be a CSV of numbers without a header"),
        ("1,2,3,4\n1,2,3,12345678901234567890123456789012345678901x\n", "in line 2"),
        ("1,2,3,inf\n", "x must be finite and below 2e+19 in size, however: column 3 is not"),
        (b"\xff\xfe\x00", "must be a CSV of numbers without a header"),
    ],
)
def test_wrong_rows_get_one_line(model, capsys, content, message):
    (model / "rows.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run(capsys, "verify", model / "model.hnet", model / "rows.csv")
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("harsanyinet: ")
    assert err.count("\n") == 1


def test_wrong_model_files_get_one_line(model, capsys):
    cases = {
        "missing.hnet": None,
        "foreign.hnet": b"PK\x03\x04 not ours",
        "cut.hnet": (model / "model.hnet").read_bytes()[:900],
    }
    for name, content in cases.items():
        if content is not None:
            (model / name).write_bytes(content)
        code, _, err = run(capsys, "verify", model / name, model / "rows.csv")
        assert code == 2
        assert name in err
        assert err.count("\n") == 1


def test_the_result_of_a_failed_write_is_one_line(model, capsys):
    code, _, err = run(capsys, "verify", model / "model.hnet", model / "rows.csv", "-o", model / "no" / "c.json")
    assert code == 2
    assert err.count("\n") == 1


def test_interrupt_and_traceback_switch(model, capsys, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("harsanyinet.loading.load", interrupted)
    assert run(capsys, "verify", model / "model.hnet", model / "rows.csv") == (130, "", "interrupted\n")
    monkeypatch.undo()
    monkeypatch.setenv("HARSANYINET_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        main(["verify", "nowhere.hnet", str(model / "rows.csv")])


@pytest.mark.parametrize("command", ["", "demo", "fit", "predict", "explain", "score", "verify", "bench"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "usage: harsanyinet" in capsys.readouterr().out


def test_unknown_command_and_version(capsys):
    for arguments, code in ((["juggle"], 2), ([], 2), (["bench", "everything"], 2), (["--version"], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == code


@pytest.mark.parametrize("arguments", [["bench", "core"], ["reproduce", "table1"]])
def test_without_the_experiments_one_line_says_where_they_are(arguments, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "run them in a checkout of the source" in err
    assert err.count("\n") == 1


def test_module_entry_point():
    code = "from harsanyinet.cli import main; raise SystemExit(main(['verify', 'nowhere.hnet', 'rows.csv']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "nowhere.hnet" in done.stderr
