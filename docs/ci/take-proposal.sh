#!/bin/sh
# Puts the models that a change proposes in the place of those that are checked out: take-proposal.sh ENVIRONMENT FROM
# Only manifests are taken, and only from stacks/ENVIRONMENT: code, rules, allow-lists and the environment's own
# configuration stay those of the branch that the change is for, so that no change can relax what it is judged by.
# Links are left out: they could point to whatever the pipeline has.
set -eu
environment=$1
proposal=$2
case $environment in
    "" | *[!a-z0-9-]*) echo "$environment is no name of an environment" >&2 && exit 3 ;;
esac
rm -rf "stacks/$environment"
mkdir -p "stacks/$environment"
here=$PWD
if [ -L "$proposal/stacks" ] || [ ! -d "$proposal/stacks" ]; then
    exit 0
fi
cd "$proposal/stacks"
# A link in the place of the folder itself is not followed either.
find "$environment" -type f \( -name '*.yaml' -o -name '*.yml' -o -name '*.json' \) | while IFS= read -r file; do
    mkdir -p "$here/stacks/${file%/*}"
    cp "$file" "$here/stacks/$file"
done
