"""One queue in its owner: processors that fetch, write the cell and hand messages out, and the tasks beside them."""
