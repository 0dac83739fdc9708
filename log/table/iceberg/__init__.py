"""The same table in Iceberg's metadata, version 2, for engines that do not read Delta."""
