"""Reserved for Triton kernels, each with its plain twin beside it. Nothing is here yet."""
