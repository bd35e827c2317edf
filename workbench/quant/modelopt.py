"""The only module that imports ModelOpt. https://github.com/NVIDIA/Model-Optimizer."""
