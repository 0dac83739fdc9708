"""The pages as values, one module each.

What a page shows is a ``…Page``. A line of its tables is a ``…Row``, and what is read for one of them alone ``…Details``, unless it is a look of
`penstock.infra.operating`.
"""
