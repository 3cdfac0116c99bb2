"""Tests of services that hand out jobs, against local servers."""
