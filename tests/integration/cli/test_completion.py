"""``streamshard completion``: scripts that the shells take, and that know the commands."""

import shutil
import subprocess

import pytest

from tests.integration.cli.processes import COMMAND, clean_environment, streamshard


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_this_program(shell: str) -> None:
    answer = streamshard("completion", shell)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"_STREAMSHARD_COMPLETE={shell}_complete" in answer.stdout
    assert "streamshard" in answer.stdout


def test_bash_takes_its_script() -> None:
    script = streamshard("completion", "bash").stdout
    bash = shutil.which("bash") or pytest.fail("there is no bash")

    read = subprocess.run([bash, "-n"], input=script, capture_output=True, text=True, timeout=20, check=False)

    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(
    ("typed", "at", "expected"),
    [
        ("streamshard doc", 1, {"doctor"}),
        ("streamshard completion ", 2, {"bash", "zsh", "fish"}),
        ("streamshard serve --log", 2, {"--log-format", "--login-limit"}),
    ],
)
def test_commands_options_and_choices_are_completed(typed: str, at: int, expected: set[str]) -> None:
    environment = clean_environment(_STREAMSHARD_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(at))

    answer = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=30, check=False)

    found = {line.partition(",")[2] for line in answer.stdout.splitlines()}
    assert found & expected == {name for name in expected if name.startswith(typed.split(" ")[-1])}


def test_another_shell_is_a_usage_error() -> None:
    assert streamshard("completion", "tcsh").returncode == 2
