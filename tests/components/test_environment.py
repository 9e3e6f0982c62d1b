"""An environment's models are read from files and checked before anything is applied."""

from pathlib import Path

import pytest

from components.environment import ModelManifestError, read_models

STACKS = Path(__file__).parents[2] / "stacks"

MODEL = """\
apiVersion: decisionmodel.io/v1alpha1
kind: DecisionModel
metadata:
  name: {name}
spec:
  model: laya:en
"""


def test_the_dev_environment_serves_the_quickstart_model() -> None:
    (model,) = read_models(STACKS / "dev")

    assert model["metadata"]["name"] == "support-router"
    assert model["metadata"]["namespace"] == "default"
    assert model["spec"] == {
        "engine": "ollaya",
        "model": "laya:en",
        "device": "cpu",
        "replicas": 1,
        "resources": {"requests": {"cpu": "1", "memory": "3500Mi"}, "limits": {"memory": "4Gi"}},
    }


def test_files_are_read_by_name_with_all_their_documents(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(MODEL.format(name="last"))
    (tmp_path / "a.yaml").write_text(MODEL.format(name="first") + "---\n" + MODEL.format(name="second") + "---\n")
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "README.md").write_text("no model")

    assert [model["metadata"]["name"] for model in read_models(tmp_path)] == ["first", "second", "last"]


def test_metadata_of_the_file_is_kept(tmp_path: Path) -> None:
    annotated = MODEL.format(name="router").replace(
        "  name:", "  namespace: models\n  annotations: {decisionmodel.io/retry: '1'}\n  name:"
    )
    (tmp_path / "a.yaml").write_text(annotated)

    (model,) = read_models(tmp_path)

    assert model["metadata"]["namespace"] == "models"
    assert model["metadata"]["annotations"]["decisionmodel.io/retry"] == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MODEL.format(name="Router"), "metadata.name must start with a letter"),
        (
            MODEL.format(name="router").replace("laya:en", "laya"),
            "spec.model: Value error, model must name an explicit",
        ),
        ("kind: ConfigMap\n", "kind: Input should be 'DecisionModel'"),
        ("- a list", "the object: "),
        ("a: [", "while parsing"),
        (
            MODEL.format(name="router") + "---\n" + MODEL.format(name="router"),
            "already is a DecisionModel default/router",
        ),
    ],
)
def test_what_is_no_model_is_refused_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.yaml").write_text(text)

    with pytest.raises(ModelManifestError) as refusal:
        read_models(tmp_path)

    assert "broken.yaml" in str(refusal.value)
    assert message in str(refusal.value)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelManifestError, match="no such directory"):
        read_models(tmp_path / "prod")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("more.yml", "Rename it to more.yaml."),
        ("more.json", "Rename it to more.yaml."),
        ("team/more.yaml", "Move the files in it to"),
    ],
)
def test_what_could_hold_models_and_would_not_be_read_is_refused(tmp_path: Path, name: str, step: str) -> None:
    (tmp_path / "a.yaml").write_text(MODEL.format(name="router"))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(MODEL.format(name="more"))

    with pytest.raises(ModelManifestError, match=name.partition("/")[0]) as refusal:
        read_models(tmp_path)

    assert step in str(refusal.value)


def test_a_model_where_nobody_looks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MODEL.format(name="router"))

    assert read_models(tmp_path, ["default"])
    with pytest.raises(ModelManifestError) as refusal:
        read_models(tmp_path, ["models", "team-b"])

    assert str(refusal.value) == (
        f"{tmp_path / 'a.yaml'}: default/router: nobody looks after the namespace default. Add it to the key"
        " manager.watchNamespaces, or move the DecisionModel to a namespace that is listed there (models, team-b)."
    )
