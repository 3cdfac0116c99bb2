"""The `buildbot` backend: a generated master, workers that run `lh-ci exec`, dispatch by REST."""
