"""The one place where ops are declared. See `kinds` for how, `registry` for what becomes of a declaration.

What is used less is imported when one of its functions is first met: see `protocol.LATE`.
"""

from functrace.ops import arrange as arrange
from functrace.ops import constants as constants
from functrace.ops import contract as contract
from functrace.ops import create as create
from functrace.ops import cumulative as cumulative
from functrace.ops import elementwise as elementwise
from functrace.ops import functions as functions
from functrace.ops import index as index
from functrace.ops import inplace as inplace
from functrace.ops import join as join
from functrace.ops import kinds as kinds
from functrace.ops import methods as methods
from functrace.ops import products as products
from functrace.ops import reduce as reduce
from functrace.ops import registry as registry
from functrace.ops import shape as shape
from functrace.ops import ufuncs as ufuncs
from functrace.ops import writing as writing
