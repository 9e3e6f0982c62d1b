"""The verdict as JUnit XML, which most pipelines show as a list of tests."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

from cli.policy.verdict import LocatedFinding, Verdict
from policy import Level
from policy.finding import ObjectReference

# XML 1.0 has no way at all to write the other characters.
_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(verdict: Verdict) -> str:
    """Return one suite: a failed case for each mandatory finding, passed ones for advisory and for clean manifests."""
    failures = verdict.count(Level.MANDATORY)
    found = {each.finding.position for each in verdict.findings}
    clean = [about for position, about in enumerate(verdict.checked) if position not in found]
    tests = str(len(verdict.findings) + len(clean))
    root = ET.Element("testsuites", tests=tests, failures=str(failures), errors="0")
    suite = ET.SubElement(
        root, "testsuite", name="dmctl policy check", tests=tests, failures=str(failures), errors="0", skipped="0"
    )
    for located in verdict.findings:
        _add_finding(suite, located)
    for about in clean:
        _add_case(suite, about, "all rules")
    text: str = ET.tostring(root, encoding="unicode", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _add_finding(suite: ET.Element, located: LocatedFinding) -> None:
    finding = located.finding
    case = _add_case(suite, finding.object, finding.rule)
    case.set("file", _xml(located.file))
    case.set("line", str(located.line))
    text = _xml(f"{located.file}:{located.line}: {finding.where}: {finding.message}\n{located.remedy}")
    if finding.level is Level.MANDATORY:
        failure = ET.SubElement(case, "failure", type=finding.rule, message=_xml(finding.message))
        failure.text = text
    else:
        ET.SubElement(case, "system-out").text = text


def _add_case(suite: ET.Element, about: ObjectReference, rule: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_xml(str(about)), name=rule)


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
