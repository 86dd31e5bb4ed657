"""The hashes of a model folder."""

from gmts.models.identity import settings_sha256


def test_settings_are_every_file_except_weights_words_and_our_card(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = settings_sha256(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"1")
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "gmts.json").write_text("{}")
    assert settings_sha256(tmp_path) == before
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert settings_sha256(tmp_path) != before
