"""The `buildkite` backend: steps from a plan, agents that run `lh-ci exec`, REST."""
