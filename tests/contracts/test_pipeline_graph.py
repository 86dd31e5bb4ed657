"""dvc.yaml says what the code does: which parameters and which modules each stage reads."""

import ast
from pathlib import Path

import grimp
import pytest
from ruamel.yaml import YAML

from gmts.config import STAGE_SECTIONS, Params
from gmts.config.reference import reference

STAGES = list(STAGE_SECTIONS)


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("gmts")


@pytest.fixture(scope="module")
def dvc_stages():
    stages = YAML(typ="safe").load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"]
    # A stage with foreach is one per item.
    return {name: stage.get("do", stage) for name, stage in stages.items()}


def sections_read(stage):
    """Sections of `params` that a stage's module, or the one for all scores, names."""
    modules = [stage, "scoring"] if stage in ("evaluate", "benchmark") else [stage]
    texts = [Path(f"gmts/stages/{name}.py").read_text(encoding="utf-8") for name in modules]
    return {
        node.attr
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "params"
    }


@pytest.mark.parametrize("stage", STAGES)
def test_dvc_lists_the_sections_that_the_schema_says_a_stage_reads(dvc_stages, stage):
    # Of a mapping one key may be enough: benchmarks.${key}.
    found = {name.split(".")[0] for name in dvc_stages[stage]["params"]}
    assert found == set(STAGE_SECTIONS[stage])


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_reads_no_section_that_dvc_does_not_watch(stage):
    assert sections_read(stage) <= set(STAGE_SECTIONS[stage])


def test_every_section_is_read_by_some_stage():
    read = {section for sections in STAGE_SECTIONS.values() for section in sections}
    assert read == set(Params.__dataclass_fields__)


@pytest.mark.parametrize("stage", STAGES)
def test_dvc_watches_every_module_that_a_stage_imports(graph, dvc_stages, stage):
    start = f"gmts.stages.{stage}"
    modules = {start} | graph.find_upstream_modules(start)
    watched = [Path(path) for path in dvc_stages[stage]["deps"]]

    def file_of(module):
        path = Path(*module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    # A section's dataclass lives in its layer's config.py; what it holds is watched as parameters.
    unwatched = sorted(
        str(file)
        for file in map(file_of, modules)
        if file.name not in ("config.py", "__init__.py")
        and not any(file.is_relative_to(path) for path in watched)
    )
    assert unwatched == []


def test_the_parameter_reference_is_current():
    expected = reference(Path("configs/base.yaml"))
    assert Path("docs/parameters.md").read_text(encoding="utf-8") == expected, "run `make docs`"


def test_git_ignores_every_output_of_dvc(dvc_stages):
    ignored = Path(".gitignore").read_text(encoding="utf-8").splitlines()
    for stage in dvc_stages.values():
        for out in stage["outs"]:
            assert any(out.startswith(rule.strip("/")) for rule in ignored if rule), out
