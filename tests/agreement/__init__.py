"""Tests of the measures of agreement on a tree."""
