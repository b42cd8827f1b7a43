import pytest

from hostler.gateway.paths import Direct, Inference, ModelList, classify


@pytest.mark.parametrize("prefix", [b"", b"/llm"])
@pytest.mark.parametrize(
    ("path", "streams"),
    [(b"/v1/chat/completions", True), (b"/v1/completions", True), (b"/v1/embeddings", False)],
)
def test_inference_paths(prefix: bytes, path: bytes, streams: bool) -> None:
    """GW-10: each inference path is the same under /llm, and the engine is asked for it without that."""
    assert classify("POST", prefix + path, b"") == Inference(target=path.decode(), streams=streams)
    asked = classify("POST", prefix + path, b"a=%20b")
    assert asked == Inference(target=f"{path.decode()}?a=%20b", streams=streams)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (b"/v1/models/llama3:1b", ("llama3:1b",)),
        (b"/llm/v1/models/a//b", ("a//b",)),
        (b"/v1/models/mistralai%2Fmistral", ("mistralai/mistral", "mistralai%2Fmistral")),
        (b"/v1/models/%252e%252e", ("%2e%2e", "%252e%252e")),
        (b"/v1/models/mod%C3%A8le", ("modèle", "mod%C3%A8le")),
        ("/v1/models/modèle".encode(), ("modèle",)),
        (b"/v1/models/trailing/", ("trailing/",)),
    ],
)
def test_a_name_in_a_path(path: bytes, names: tuple[str, ...]) -> None:
    """GW-2: a model's name in a path may be encoded or plain, with slashes, and is taken for either."""
    assert classify("GET", path, b"") == ModelList(names=names)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", b"/upstream/fast/metrics", Direct(engine="fast", target="/metrics?x=1", starts=False)),
        ("POST", b"/upstream/fast/v1/rerank", Direct(engine="fast", target="/v1/rerank?x=1", starts=True)),
        ("HEAD", b"/upstream/fast", Direct(engine="fast", target="/?x=1", starts=False)),
        ("DELETE", b"/upstream/a%2db/x%2Fy", Direct(engine="a-b", target="/x%2Fy?x=1", starts=True)),
    ],
)
def test_the_rest_of_an_engine(method: str, path: bytes, expected: Direct) -> None:
    """GW-10: below /upstream/<engine> the path passes as it came, and what only reads starts nothing."""
    assert classify(method, path, b"x=1") == expected


@pytest.mark.parametrize("path", [b"/", b"/v1/chat", b"/v1/hostler/engines", b"/llm/acquire", b"/upstream"])
def test_the_rest_is_not_the_gateways(path: bytes) -> None:
    """GW-10: a path that is not the gateway's belongs to the control API."""
    assert classify("POST", path, b"") is None


def test_the_list() -> None:
    """GW-2: /v1/models without a name is the whole list."""
    assert classify("GET", b"/v1/models", b"") == ModelList()
    assert classify("GET", b"/llm/v1/models", b"limit=3") == ModelList()
