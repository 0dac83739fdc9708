"""Tests, in the areas' folders."""
