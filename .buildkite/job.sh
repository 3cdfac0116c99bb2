#!/bin/sh
# Written by `lh-ci workflows --write` from orchestrator/workflows/. Do not edit.
# Carries out the job $LIGHTHOUSE_JOB, and uploads what it comes to.
set -eu
job=$LIGHTHOUSE_JOB
case $job in
'' | *[!A-Za-z0-9._-]*) echo "no id of a job: $job" >&2 && exit 2 ;;
esac
PATH="$(.ci/setup '[fleet]'):$PATH"
rm -rf job out out.tar.gz back plan
buildkite-agent meta-data get lighthouse-slip --default '' >slip.txt
if [ ! -s slip.txt ]; then
  buildkite-agent artifact download "plan/slips/$job.txt" .
  mv "plan/slips/$job.txt" slip.txt
fi
lh-ci receive slip.txt job
code=0
lh-ci exec job/job.json --out out || code=$?
lh-ci pack out out.tar.gz
mkdir back
mv out.tar.gz "back/$job.tar.gz"
buildkite-agent artifact upload "back/$job.tar.gz"
exit "$code"
