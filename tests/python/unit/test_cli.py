"""The command `shoal`."""

import re

import pytest
import torch

import shoal
from shoal._cli import main


def test_version_names_shoal_and_both_torches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code in {0, None}
    printed = capsys.readouterr().out
    assert re.match(rf"shoal {re.escape(shoal.__version__)} \(built for torch \d", printed)
    assert torch.__version__ in printed


def test_an_unknown_argument_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--nonsense"])
    assert ended.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


def test_without_arguments_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: shoal" in capsys.readouterr().out
