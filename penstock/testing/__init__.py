"""Lakes and clocks for users' tests. Each needs nothing but this package; `s3_server` needs ``penstock[testing]``.

With pytest they come as fixtures, without an import: `penstock_memory_lake`, `penstock_local_lake`, `penstock_s3_lake`,
`penstock_clock`; see `penstock.testing.plugin`.
"""

from .clock import HandClock
from .lakes import memory_lake
from .s3 import S3Server, s3_server

__all__ = ["HandClock", "S3Server", "memory_lake", "s3_server"]
