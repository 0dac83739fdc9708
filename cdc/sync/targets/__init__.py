"""The targets of a driver: known ones, new ones, their columns, refusals and tables that stand still."""
