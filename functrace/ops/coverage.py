"""NumPy's public names that are refused, each with the reason; `docs/support.py` lists those that no traced value enters."""

REFUSED = {
    "a traced value has no memory of its own that others may read": (
        "broadcast byte_bounds flatiter from_dlpack frombuffer isfortran memmap nditer nested_iters shares_memory "
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
