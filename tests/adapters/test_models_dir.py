from pathlib import Path

from hostler.adapters.models_dir import ModelsDir


def test_model_files_are_found(tmp_path: Path) -> None:
    """CONF-5: a model's relative name lies below models_dir, an absolute one is itself."""
    (tmp_path / "a.gguf").write_bytes(b"x" * 7)
    models = ModelsDir(root=tmp_path)
    assert models.path("a.gguf") == str(tmp_path / "a.gguf")
    assert models.path("/srv/b.gguf") == "/srv/b.gguf"
    assert models.size("a.gguf") == 7


def test_a_model_that_is_not_there_has_no_size(tmp_path: Path) -> None:
    """ENG-5: the size of what is missing, or is no file, is not known."""
    models = ModelsDir(root=tmp_path)
    (tmp_path / "plain").write_bytes(b"")
    assert models.size("a.gguf") is None
    assert models.size("plain/a.gguf") is None
    assert models.size("") is None
