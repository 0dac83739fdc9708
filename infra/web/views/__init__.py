"""The pages, as values: one module a page, which gathers what it shows from a lake."""
