"""SciPy's `special`, for plain and traced arrays alike.

Every public name is covered, or constant, or in `REFUSED` with the reason. Traced values may also be given to SciPy's own ufuncs; for
its other functions see `functrace.scipy.install`.

>>> import functrace as ft
>>> from functrace.scipy import special
>>> ft.grad(special.gammainc, (0, 1))(1.0, 2.0)[1].round(6)
np.float64(0.135335)
"""

from __future__ import annotations

from typing import Any

import scipy.special as _scipy

from functrace.ops.registry import TABLE as _TABLE
from functrace.ops.registry import found as _found
from functrace.scipy import _special_bessel, _special_elliptic, _special_functions, _special_gamma, _special_stats  # noqa: F401
from functrace.scipy import refuse as _refuse
from functrace.scipy._shared import by_name as _by_name

_REASONS = {
    "it takes integers only": "bernoulli euler factorial2 factorialk stirling2 ai_zeros bi_zeros bei_zeros beip_zeros ber_zeros berp_zeros "
    "kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros erf_zeros fresnel_zeros fresnelc_zeros fresnels_zeros jn_zeros jnjnp_zeros "
    "jnp_zeros jnyn_zeros y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros",
    "it gives functions of all orders at once: call the function of one order": "lmbda lqmn lqn lpn lpmn clpmn mathieu_even_coef "
    "mathieu_odd_coef obl_cv_seq pro_cv_seq pbdn_seq pbdv_seq pbvv_seq riccati_jn riccati_yn assoc_legendre_p_all legendre_p_all "
    "sph_harm_y_all sph_legendre_p_all",
    "nodes and weights of quadrature are not differentiated in the parameters of the polynomial": "roots_legendre roots_chebyt "
    "roots_chebyu roots_chebyc roots_chebys roots_jacobi roots_laguerre roots_genlaguerre roots_hermite roots_hermitenorm "
    "roots_gegenbauer roots_sh_legendre roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi p_roots t_roots u_roots c_roots s_roots j_roots "
    "l_roots la_roots h_roots he_roots cg_roots ps_roots ts_roots us_roots js_roots",
    "it makes a polynomial object: use the function eval_... instead": "legendre chebyt chebyu chebyc chebys jacobi laguerre genlaguerre "
    "hermite hermitenorm gegenbauer sh_legendre sh_chebyt sh_chebyu sh_jacobi",
    "ellipsoidal harmonics have no rule": "ellip_harm ellip_harm_2 ellip_normal",
    "SciPy's values are not precise enough to be differentiated": "ncfdtridfd ncfdtridfn ncfdtrinc obl_rad2 obl_rad2_cv "
    "pro_rad2 pro_rad2_cv",
    "use sph_harm_y": "sph_harm",
    "use betainc and betaincinv": "btdtr btdtri",
}
REFUSED = _by_name(_REASONS)

globals().update(_refuse(_scipy, REFUSED))
globals().update({name.removeprefix("scipy.special."): d.function for name, d in _TABLE.items() if name.startswith("scipy.special.")})
globals().update(sinc=_found("sinc").function, digamma=_TABLE["scipy.special.psi"].function, jn=_TABLE["scipy.special.jv"].function)


def __getattr__(name: str) -> Any:
    return getattr(_scipy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_scipy) if not n.startswith("_"))})
