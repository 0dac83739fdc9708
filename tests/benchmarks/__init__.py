"""That every benchmark runs; what it measures is not judged here."""
