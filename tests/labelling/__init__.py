"""Tests of labelling sessions."""
