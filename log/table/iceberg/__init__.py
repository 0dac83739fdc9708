"""The same table in Iceberg's metadata, version 2: its Parquet files, listed a second time for engines that do not read Delta."""
