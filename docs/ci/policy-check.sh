#!/bin/sh
# Judges the manifests of one environment: policy-check.sh ENVIRONMENT FILE...
# Prints the findings, writes them to policy.sarif and policy-junit.xml, and ends with 0 when the manifests may be
# applied, with 2 when they must not, and with 3 when they cannot be judged.
set -eu
environment=$1
shift
exec "${PYTHON:-.venv/bin/python}" -m cli policy check \
    --config "${POLICY_CONFIG:-stacks/policy.yaml}" --environment "$environment" \
    -o text -o sarif=policy.sarif -o junit=policy-junit.xml "$@"
