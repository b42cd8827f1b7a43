"""Imports of files that nobody wrote: each is refused by line, or becomes a config that is right."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.adapters.config.tree import plain
from hostler.adapters.config.yaml import compose
from hostler.domain.errors import NotImportable
from hostler.interfaces.imports.llama_swap import convert
from hostler.interfaces.imports.yaml_text import Said, write
from tests.interfaces.importing import parts

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ue003"), max_size=12)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.sampled_from(
        ["yes", "~", "0x1f", "1e3", "5s", "-", "a: b", "#x", "{port}", "{", "*a", "- x", "2 GiB"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(TEXT, inner, max_size=4),
        st.lists(
            st.sampled_from(["--a-long-flag", "a long value of several words"]), min_size=8, max_size=14
        ),
    ),
    max_leaves=20,
)
NAMES = st.sampled_from(["a", "b", "B", "x/y", "x y", "gpt-4o", "..", "a:b", "é", "main", "-", "a\tb"])
WORDS = st.lists(
    st.sampled_from(
        [
            *("llama-server", "docker", "run", "--name", "n", "--network", "host", "img", "-e", "A=b", "1=x"),
            *("--port", "${PORT}", "9000", "--alias", "--host", "::", "{", "}", "sh", "-c", "'x y'"),
            *("vllm", "serve", "m", "${MODEL_ID}", "${m}", "--api-key", "k", "-m", "8g", "|", "#", "'", "$H"),
        ]
    ),
    max_size=8,
).map(" ".join)
URLS = st.sampled_from(
    [
        *(
            "http://localhost:${PORT}",
            "http://127.0.0.1:9000",
            "http://0.0.0.0:7070",
            "https://x",
            "http://[x",
        ),
        *("http://h:0", "http://::1:3", "", "http://a b/v1", "http://192.0.2.1:9000/", "http://x:99999/v1"),
    ]
)
NUMBERS = st.sampled_from([-1, 0, 1, 10, 10**6, 10**11, "x", None, True])


def mapping(**values: st.SearchStrategy[object]) -> st.SearchStrategy[Mapping[str, object]]:
    return st.fixed_dictionaries({}, optional=values)


FILTERS = mapping(
    stripParams=st.sampled_from(["a, b", "model", "x.y", ""]),
    setParams=st.dictionaries(NAMES, VALUES, max_size=2),
    setParamsByID=st.dictionaries(NAMES, st.dictionaries(NAMES, SCALARS, max_size=2), max_size=2),
)
MODELS = st.builds(
    lambda cmd, more: {"cmd": cmd, **more},
    WORDS,
    mapping(
        proxy=URLS,
        cmdStop=st.sampled_from(["docker stop n", "pkill x", "kill ${PID}", "'", ""]),
        checkEndpoint=st.sampled_from(["none", "/v1/models", "x", ""]),
        ttl=NUMBERS,
        unloadTimeout=NUMBERS,
        concurrencyLimit=NUMBERS,
        aliases=st.lists(NAMES, max_size=2),
        useModelName=TEXT,
        env=st.lists(st.sampled_from(["A=", "TOKEN=secret", "B=${PORT}", "C", "1=x"]), max_size=3),
        filters=FILTERS,
        unlisted=st.booleans(),
        name=TEXT,
        metadata=VALUES,
        macros=st.dictionaries(st.sampled_from(["m", "n", "PORT"]), SCALARS, max_size=2),
        capabilities=mapping(context=NUMBERS, out=st.lists(st.sampled_from(["audio", "image"]), max_size=2)),
    ),
)
FILES = mapping(
    models=st.dictionaries(NAMES, MODELS, max_size=4),
    macros=st.dictionaries(st.sampled_from(["m", "n"]), SCALARS, max_size=2),
    groups=st.dictionaries(
        NAMES,
        mapping(members=st.lists(NAMES, max_size=3), swap=st.booleans(), persistent=st.booleans()),
        max_size=2,
    ),
    matrix=mapping(
        sets=st.dictionaries(NAMES, st.sampled_from(["a & b", "a|B", "+a", "(b", "a & (b | B)"]), max_size=2)
    ),
    selectors=st.dictionaries(
        NAMES,
        mapping(strategy=st.sampled_from(["warm", "pin", "spillover"]), targets=st.lists(NAMES, max_size=2)),
    ),
    profiles=st.dictionaries(NAMES, mapping(pins=st.dictionaries(NAMES, NAMES, max_size=2)), max_size=2),
    peers=st.dictionaries(
        NAMES,
        mapping(proxy=URLS, models=st.lists(NAMES, max_size=2), apiKey=TEXT, filters=FILTERS),
        max_size=2,
    ),
    apiKeys=st.lists(TEXT, max_size=2),
    hooks=mapping(on_startup=mapping(preload=st.lists(NAMES, max_size=2))),
    healthCheckTimeout=NUMBERS,
    globalTTL=NUMBERS,
    logLevel=st.sampled_from(["info", "warn", "loud"]),
    unknown=VALUES,
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(file=FILES)
def test_any_file_is_refused_or_becomes_a_config_that_is_right(
    tmp_path_factory: pytest.TempPathFactory, file: Mapping[str, object]
) -> None:
    """CONF-4: whatever a file says, it is refused with lines, or what comes of it passes `config check`."""
    folder = tmp_path_factory.mktemp("any")
    path: Path = folder / "swap.yaml"
    path.write_text(json.dumps(file, indent=1, ensure_ascii=False), encoding="utf-8")
    files = parts(folder)
    refused: tuple[str, ...] = ()
    found = None
    try:
        found = convert(files.read([str(path)]), here=files.here)
    except NotImportable as refusal:
        refused = refusal.problems
    assert (found is None) == bool(refused)
    assert all(problem.startswith(f"{path}:") for problem in refused)
    if found is not None:
        assert [str(problem) for problem in files.check(found.draft)] == []


@settings(max_examples=200)
@given(document=st.dictionaries(TEXT.filter(lambda key: key != "<<"), VALUES, max_size=5))
def test_what_is_written_reads_back(document: dict[str, object]) -> None:
    """CONF-1, CONF-4: every document that is written reads back under the strict rules as what it was."""
    commented = {
        key: Said(value, above=("", "a\nb"), beside="c") if key.isalpha() else value
        for key, value in document.items()
    }
    text = write(commented, ("", "head \x1b"))
    root, findings = compose(text)
    assert [finding.message for finding in findings] == []
    assert plain(root) == document
    assert "\x1b" not in text


def test_lines_are_not_too_long() -> None:
    """CONF-4: a long list is folded, its words whole."""
    text = write({"argv": ["--a-long-flag", "a long value"] * 20})
    assert max(map(len, text.splitlines())) <= 110
