"""Lakes, messages and clocks for users' tests; `s3_server` needs ``penstock[testing]``.

pytest has them as fixtures, without an import: `penstock_memory_lake`, `penstock_local_lake`, `penstock_s3_lake`, `penstock_clock`; see
`penstock.testing.plugin`.
"""

from typing import TYPE_CHECKING

from penstock.log.lazy_names import lazy_names

if TYPE_CHECKING:
    from .apps import app as app
    from .apps import until_handled as until_handled
    from .clock import HandClock as HandClock
    from .lakes import memory_lake as memory_lake
    from .messages import message as message
    from .s3 import S3Server as S3Server
    from .s3 import s3_server as s3_server
else:
    # Every run of pytest in the environment loads the plugin, and with it this package.
    __getattr__, __dir__, __all__ = lazy_names(__name__)
