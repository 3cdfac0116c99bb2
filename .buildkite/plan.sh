#!/bin/sh
# Written by `lh-ci workflows --write` from orchestrator/workflows/. Do not edit.
# Uploads the steps of a build: those of the one job that a dispatcher handed over, else those of
# the plan of $SELECTION, pipelines or globs over cell ids; without it, the whole matrix.
set -euf
steps=$(buildkite-agent meta-data get lighthouse-steps --default '')
if [ -n "$steps" ]; then
  printf '%s' "$steps" | buildkite-agent pipeline upload --no-interpolation
  exit
fi
PATH="$(.ci/setup '[fleet]'):$PATH"
rm -rf plan
# shellcheck disable=SC2086 # words
lh-ci plan --branch "${BUILDKITE_BRANCH:-main}" --format buildkite --out plan -- ${SELECTION:-} >steps.json
tar -czf plan.tar.gz plan
buildkite-agent artifact upload plan.tar.gz
buildkite-agent artifact upload 'plan/slips/*.txt'
buildkite-agent pipeline upload --no-interpolation steps.json
