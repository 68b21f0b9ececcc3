"""SciPy's `special`, for plain and traced arrays alike.

Every public name is covered, or constant, or in `REFUSED` with the reason. Traced values may also be given to SciPy's own ufuncs; for
its other functions see `functrace.scipy.install`.

>>> import functrace as ft
>>> from functrace.scipy import special
>>> ft.grad(special.gammainc, (0, 1))(1.0, 2.0)[1].round(6)
np.float64(0.135335)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scipy.special as _scipy
from numpy import ufunc as _ufunc

from functrace.edge import trim as _trim
from functrace.ops.registry import TABLE as _TABLE
from functrace.ops.registry import found as _found
from functrace.ops.ufuncs import as_ufunc as _as_ufunc
from functrace.scipy import _special_bessel, _special_elliptic, _special_functions, _special_gamma  # noqa: F401
from functrace.scipy import refuse as _refuse
from functrace.scipy._shared import by_name as _by_name

if TYPE_CHECKING:
    from scipy.special import *  # noqa: F403

_REASONS = {
    "it takes integers only": "bernoulli euler factorial2 factorialk stirling2 *_zeros",
    "it gives functions of all orders at once: call the function of one order": "lmbda lqmn lqn lpn lpmn clpmn mathieu_*_coef *_seq "
    "riccati_jn riccati_yn *_all",
    "nodes and weights of quadrature are not differentiated in the parameters of the polynomial": "roots_* *_roots",
    "it makes a polynomial object: use the function eval_... instead": "legendre chebyt chebyu chebyc chebys jacobi laguerre genlaguerre "
    "hermite hermitenorm gegenbauer sh_legendre sh_chebyt sh_chebyu sh_jacobi",
    "ellipsoidal harmonics have no rule": "ellip_harm ellip_harm_2 ellip_normal",
    "SciPy's values are not precise enough to be differentiated": "ncfdtridfd ncfdtridfn ncfdtrinc obl_rad2 obl_rad2_cv "
    "pro_rad2 pro_rad2_cv",
    "use sph_harm_y": "sph_harm",
    "use betainc and betaincinv": "btdtr btdtri",
}
REFUSED = _by_name(_REASONS, dir(_scipy))

globals().update(_refuse(_scipy, REFUSED))
globals().update(
    {
        name.removeprefix("scipy.special."): _as_ufunc(d.function, d.theirs) if isinstance(d.theirs, _ufunc) else d.function
        for name, d in _TABLE.items()
        if name.startswith("scipy.special.")
    }
)
globals().update(sinc=_found("sinc").function, digamma=globals()["psi"], jn=globals()["jv"])


def __getattr__(name: str) -> Any:
    try:
        return getattr(_scipy, name)
    except AttributeError as error:
        _trim(error)
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_scipy) if not n.startswith("_"))})
