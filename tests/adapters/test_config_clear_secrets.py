from pathlib import Path

import pytest

from hostler.adapters.config.check_engines import clear_secrets
from hostler.adapters.config.schema.engines import EngineKeys
from tests.adapters.test_config_show import offline
from tests.fakes.config_files import write_config


@pytest.mark.parametrize(
    ("argv", "secret"),
    [
        (["pod", "run", "-e", "HF_TOKEN=abc", "image"], [3]),
        (["pod", "run", "-eSOME_API_KEY", "image"], []),
        (["pod", "run", "-e", "HF_TOKEN", "image"], []),
        (["serve", "--hf-token", "abc"], [2]),
        (["serve", "--api-key=abc", "--port", "1"], [1]),
        (["serve", "--max-tokens", "100", "MAX_TOKENS=100", "TOKENIZERS_PARALLELISM=false"], []),
    ],
)
def test_what_reads_like_a_secret_in_a_command(argv: list[str], secret: list[int]) -> None:
    """BG-27, SEC-1: the value of a secret's flag or variable in a command is told from other words."""
    found = [path for path, _ in clear_secrets(EngineKeys.model_construct(argv=argv, args=[], env={}))]
    assert found == [("argv", index) for index in secret]


def test_a_command_is_shown_without_its_secrets(tmp_path: Path) -> None:
    """BG-27, CONF-2: a clear secret in a command or an environment is warned of, and shown as stars."""
    text = """\
version: 1
engines:
  pod:
    argv: [podman, run, -e, HF_TOKEN=hf_in-clear, -p, "{port}:80", image]
    env: {SOME_PASSWORD: in-clear-too, TOKENIZERS_PARALLELISM: "false"}
    memory: 1 GiB
"""
    path = str(write_config(tmp_path, text))
    shown = offline(tmp_path).show(path, None).text
    assert "in-clear" not in shown
    assert "podman" in shown
    assert "TOKENIZERS_PARALLELISM: 'false'" in shown
    warned = [problem.path for problem in offline(tmp_path).check(path, None).warnings]
    assert warned == ["engines.pod.argv[3]", "engines.pod.env.SOME_PASSWORD"]
