#!/bin/sh
# Carries out the job $LIGHTHOUSE_JOB, and uploads what it comes to.
set -eu
job=$LIGHTHOUSE_JOB
case $job in
'' | *[!A-Za-z0-9._-]*) echo "no id of a job: $job" >&2 && exit 2 ;;
esac
PATH="$(.ci/setup '[fleet]'):$PATH"
rm -rf job out @packed@ back plan
buildkite-agent meta-data get lighthouse-slip --default '' >slip.txt
if [ ! -s slip.txt ]; then
  buildkite-agent artifact download "plan/slips/$job.txt" .
  mv "plan/slips/$job.txt" slip.txt
fi
lh-ci receive slip.txt job
code=0
@argv@ || code=$?
@pack@
mkdir back
mv @packed@ "back/$job.tar.gz"
buildkite-agent artifact upload "back/$job.tar.gz"
exit "$code"
