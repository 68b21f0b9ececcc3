# To type checkers and editors the names are NumPy's, and a traced value is the array that it stands for.
from numpy import *

from functrace.numpy._packages import install as install
from functrace.numpy._packages import uninstall as uninstall
from functrace.ops.inplace import at as at
