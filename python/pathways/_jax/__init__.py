"""The only folder that may reach into jax beyond its public interface.

    seams.py        every private name that Pathways uses, and what happens where jax does not have it
    public.py       what private functions of jax do, made of its public ones
    compilation.py  one hook on compilation, for all who rewrite modules or look at executables
"""
