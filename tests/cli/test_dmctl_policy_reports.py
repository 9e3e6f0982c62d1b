"""Reports for programs: SARIF 2.1.0 and JUnit, by the rules that their readers rely on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from policy import RULES
from tests.cli.commands import Dmctl
from tests.policy.manifests import changed, model, one

REFUSED = model(image="registry.example.com/own:1", resources={"limits": {"memory": "4Gi"}})


@pytest.fixture
def file(dmctl: Dmctl) -> str:
    return dmctl.write("deploy dir/größe.yaml", REFUSED, one("Service"))


def sarif(dmctl: Dmctl, file: str) -> Any:
    done = dmctl("policy", "check", "-o", "sarif", file)
    assert done.code == 2
    return json.loads(done.out)


def test_sarif_has_the_shape_that_its_standard_demands(dmctl: Dmctl, file: str) -> None:
    log = sarif(dmctl, file)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "dmctl"
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == [rule.id for rule in RULES]
    assert run["results"]
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert place["artifactLocation"]["uri"].isascii()


def test_sarif_brings_no_link_of_a_manifest(dmctl: Dmctl) -> None:
    lure = model(image="evil.example/[click here](https://evil.example)\\[x](y)")
    (run,) = sarif(dmctl, dmctl.write("model.yaml", lure))["runs"]
    texts = [result["message"]["text"] for result in run["results"]]
    assert any("evil.example" in text for text in texts)
    for text in texts:
        bare = re.sub(r"\\[\\\[\]]", "", text)
        assert not {"[", "]", "\\"} & set(bare), "every bracket is escaped, and so is what could undo it"


def test_sarif_points_to_file_and_line(dmctl: Dmctl, file: str) -> None:
    (run,) = sarif(dmctl, file)["runs"]
    places = {
        result["ruleId"]: (
            unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]),
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
            result["level"],
        )
        for result in run["results"]
    }
    assert places["custom-image-allowed"] == (file, 8, "error")
    assert places["memory-limit-headroom"] == (file, 11, "warning")


def test_sarif_names_files_relative_to_the_working_directory(dmctl: Dmctl, file: str) -> None:
    absolute = sarif(dmctl, str(dmctl.directory / file))
    assert absolute == sarif(dmctl, file)


def suite(dmctl: Dmctl, *files: str) -> ET.Element:
    root = ET.fromstring(dmctl("policy", "check", "-o", "junit", *files).out)  # noqa: S314  # our own output
    assert root.tag == "testsuites"
    (only,) = root
    counted = {
        "tests": len(only.findall("testcase")),
        "failures": len(only.findall("testcase/failure")),
        "errors": 0,
    }
    for each in (root, only):
        attributes: Mapping[str, str] = each.attrib
        assert {name: int(attributes[name]) for name in counted} == counted
    return only


def test_junit_has_a_case_for_every_finding_and_every_clean_manifest(dmctl: Dmctl, file: str) -> None:
    cases = {case.attrib["name"]: case for case in suite(dmctl, file)}
    failure = cases["custom-image-allowed"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "custom-image-allowed"
    assert f"{file}:8: spec.image: " in (failure.text or "")
    assert cases["custom-image-allowed"].attrib["classname"] == "DecisionModel team-a/laya"
    # Advice fails nothing.
    assert cases["memory-limit-headroom"].find("failure") is None
    assert cases["all rules"].attrib["classname"] == "Service team-a/laya"


def test_junit_survives_characters_that_xml_cannot_hold(dmctl: Dmctl) -> None:
    hostile = changed(REFUSED, "metadata/name", "laya\x00\x1b<&>\ufffe")
    names = {case.attrib["classname"] for case in suite(dmctl, dmctl.write("m.json", json.dumps(hostile)))}
    assert names == {"DecisionModel team-a/laya\ufffd\ufffd<&>\ufffd"}


@pytest.mark.parametrize("output", ["json", "sarif", "junit"])
def test_clean_manifests_make_complete_reports_too(dmctl: Dmctl, output: str) -> None:
    done = dmctl("policy", "check", "-o", output, dmctl.write("m.yaml", model()))
    assert (done.code, done.err) == (0, "")
    assert done.out


def test_json_reports_count_and_place_every_finding(dmctl: Dmctl, file: str) -> None:
    report = json.loads(dmctl("policy", "check", "-o", "json", file).out)
    assert report["verdict"] == "refused"
    assert report["mandatory"] + report["advisory"] == len(report["findings"])
    assert (report["checked"], report["passedOver"]) == (2, 0)
    (image,) = [each for each in report["findings"] if each["rule"] == "custom-image-allowed"]
    assert (image["file"], image["line"], image["path"]) == (file, 8, "spec.image")
    assert image["remedy"]


def test_one_run_writes_several_reports(dmctl: Dmctl, file: str) -> None:
    done = dmctl("policy", "check", "-o", "text", "-o", "sarif=policy.sarif", "-o", "junit=policy.xml", file)
    assert done.code == 2
    assert done.out.splitlines()[-1].startswith("refused: ")
    assert json.loads((dmctl.directory / "policy.sarif").read_text())["version"] == "2.1.0"
    assert (dmctl.directory / "policy.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize("output", ["sarif=", "html=a", "sarif=missing/policy.sarif"])
def test_a_report_that_cannot_be_written_is_an_error(dmctl: Dmctl, file: str, output: str) -> None:
    done = dmctl("policy", "check", "-o", output, file)
    assert done.code == 3
    assert output.partition("=")[2] in done.err
