from numba.core import caching as caching
from numba.core import config as config
