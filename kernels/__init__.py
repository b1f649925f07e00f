"""The step's scans as Triton kernels, each with its plain twin beside it.  Importing this package needs neither
torch nor triton; its modules need both."""
