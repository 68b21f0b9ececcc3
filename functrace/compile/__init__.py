"""`jit`: a tape, recorded once, as one flat NumPy program. Read capture, program, passes, fuse, emit, then jit."""
