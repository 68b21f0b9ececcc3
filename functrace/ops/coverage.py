"""The rest of NumPy's public names: those that no traced value enters, and those that are refused, each with the reason.

With the declarations these are all of `numpy`, `numpy.linalg`, `numpy.fft`, `numpy.emath`, `numpy.polynomial` and `ndarray`; a
test holds them against NumPy, and `docs/support.md` shows them.
"""

PLAIN = {
    "dtypes and their limits": (
        "bool bool_ byte bytes_ cdouble character clongdouble complex128 complex192 complex256 complex64 complexfloating csingle "
        "datetime64 double dtype flexible float128 float16 float32 float64 float96 floating generic half inexact int16 int32 int64 int8 "
        "int_ intc integer intp long longdouble longlong number object_ record short signedinteger single str_ timedelta64 ubyte uint "
        "uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger ushort void finfo iinfo isdtype issubdtype promote_types "
        "mintypecode ScalarType sctypeDict typecodes typename"
    ),
    "constants": "True_ False_ e euler_gamma inf nan newaxis pi little_endian",
    "arrays made of plain numbers": (
        "arange bartlett blackman diag_indices eye empty empty_like fromfunction fromstring hamming hanning identity indices "
        "mask_indices mgrid ndindex ogrid ones ones_like tri tril_indices triu_indices zeros zeros_like polynomial.chebyshev.chebgauss "
        "polynomial.chebyshev.chebpts1 polynomial.chebyshev.chebpts2 polynomial.legendre.leggauss polynomial.hermite.hermgauss "
        "polynomial.hermite_e.hermegauss polynomial.laguerre.laggauss broadcast_shapes s_ index_exp lib.array_utils.normalize_axis_index "
        "lib.array_utils.normalize_axis_tuple"
    ),
    "files, dates, text and settings": (
        "base_repr binary_repr busday_count busday_offset busdaycalendar datetime_as_string datetime_data errstate format_float_positional "
        "format_float_scientific fromfile fromregex genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday "
        "load loadtxt printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime test linalg.test fft.test "
        "polynomial.test polynomial.set_default_printstyle linalg.LinAlgError"
    ),
    "classes, and questions about types": (
        "isscalar iterable ndarray ufunc ndarray.__class_getitem__ ndarray.__array_finalize__ ndarray.__array_wrap__ ndarray.__setstate__ "
        "ndarray.__buffer__ ndarray._set_dtype ndarray._set_shape "
        "ndarray.__dlpack_device__ "
        + " ".join(f"polynomial.{m}.ABCPolyBase" for m in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre"))
    ),
}

REFUSED = {
    "a traced value has no memory of its own that others may read": (
        "broadcast byte_bounds flatiter from_dlpack frombuffer isfortran may_share_memory memmap nditer nested_iters shares_memory "
        "lib.stride_tricks.as_strided lib.array_utils.byte_bounds ndarray.__array_interface__ ndarray.__array_struct__ ndarray.__dlpack__ "
        "ndarray.base ndarray.ctypes ndarray.data ndarray.flags ndarray.setflags ndarray.strides"
    ),
    "it takes the numbers out, which would cut the derivative: use functrace.value(x)": (
        "fromiter save savetxt savez savez_compressed ndarray.dump ndarray.dumps ndarray.tobytes ndarray.tofile ndarray.item "
        "ndarray.tolist ndarray.__float__ ndarray.__complex__ ndarray.__array__ ndarray.tostring"
    ),
    "not covered yet; nested calls of the function of one variable are": (
        "polynomial.polynomial.polyvalnd polynomial.chebyshev.chebvalnd polynomial.hermite.hermvalnd polynomial.hermite_e.hermevalnd "
        "polynomial.laguerre.lagvalnd polynomial.legendre.legvalnd"
    ),
    "bit patterns have no derivative": "packbits unpackbits ndarray.byteswap ndarray.getfield ndarray.setfield ndarray.view",
    "NumPy advises against matrices, and records hold no traced values": "asmatrix bmat matrix recarray",
    "ufuncs of Python objects": "frompyfunc",
    "an array's elements can't be deleted": "ndarray.__delitem__",
}
