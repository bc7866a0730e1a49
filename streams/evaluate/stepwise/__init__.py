"""Evaluation of any program, by the changes of relations."""
