"""The Transformers of the paper's tables 1 and 2 in plain jax: an encoder-decoder of T5's sizes and a decoder-only language model. The small
configurations are for this machine.

A model has two forms. For pipelines it is a list of layer functions, each with its own parameters. For SPMD it is one function that scans over the layers;
each parameter is then one array over all layers. Positions are learned; T5's relative ones are left out.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    hidden: int
    heads: int
    head_width: int
    decoders: int
    encoders: int = 0        # 0: decoder-only
    length: int = 512        # tokens of the text, and of the input if there are encoders
    vocabulary: int = 32128
    dtype: str = "float32"


# The paper's: T5 of four sizes, and "62 layers, 2048 wide, 8192 hidden". Then ours.
CONFIGS = {
    "T5-Base": Config(768, 3072, 12, 64, 12, 12),
    "T5-Large": Config(1024, 4096, 16, 64, 24, 24),
    "T5-3B": Config(1024, 16384, 32, 128, 24, 24),
    "T5-11B": Config(1024, 65536, 128, 128, 24, 24),
    "LM-3B": Config(2048, 8192, 16, 128, 62, length=1024),
    "LM-1.6B": Config(2048, 8192, 16, 128, 30, length=1024),
    "LM-1B": Config(2048, 8192, 16, 128, 16, length=1024),
    "small encoder-decoder": Config(128, 512, 4, 32, 2, 2, length=64, vocabulary=256),
    "small decoder-only": Config(128, 512, 4, 32, 4, length=64, vocabulary=256),
    "small decoder-only, 16 layers": Config(128, 512, 4, 32, 16, length=64, vocabulary=256),
}


# -------------------------------------------------------------------------------------------------------------------- parameters
def _attention_shapes(c):
    return {"q": (c.width, c.heads, c.head_width), "k": (c.width, c.heads, c.head_width), "v": (c.width, c.heads, c.head_width),
            "o": (c.heads, c.head_width, c.width), "scale": (c.width,)}


def block_shapes(c, crossed=False):
    """Returns the shapes of one layer. crossed: a decoder layer that attends to an encoder's outputs."""
    shapes = {"self": _attention_shapes(c), "up": (c.width, c.hidden), "down": (c.hidden, c.width), "scale": (c.width,)}
    return {**shapes, "cross": _attention_shapes(c)} if crossed else shapes


def ends_shapes(c):
    """Returns the shapes of the embedding and of the output head."""
    return {"embed": (c.vocabulary, c.width), "place": (c.length, c.width)}, {"scale": (c.width,), "head": (c.width, c.vocabulary)}


def _is_shape(value):
    return isinstance(value, tuple)


def make(key, shapes, dtype="float32", stacked=()):
    """Makes random parameters. stacked: leading dimensions that each array has besides."""
    leaves, tree = jax.tree.flatten(shapes, is_leaf=_is_shape)
    keys = jax.random.split(key, len(leaves))
    one = lambda k, s: jnp.ones((*stacked, *s), dtype) if len(s) == 1 else jax.random.normal(k, (*stacked, *s), dtype) * (s[0] ** -0.5)
    return jax.tree.unflatten(tree, [one(k, s) for k, s in zip(keys, leaves)])


def count(c):
    """Returns the number of parameters."""
    total = lambda shapes: sum(math.prod(s) for s in jax.tree.leaves(shapes, is_leaf=_is_shape))
    first, last = ends_shapes(c)
    return total(first) + total(last) + c.decoders * total(block_shapes(c, bool(c.encoders))) + c.encoders * total(block_shapes(c))


# -------------------------------------------------------------------------------------------------------------------- functions
def _norm(x, scale):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def _attend(x, seen, p, causal):
    q = jnp.einsum("bld,dhk->blhk", _norm(x, p["scale"]), p["q"])
    source = _norm(x, p["scale"]) if seen is None else seen
    k, v = (jnp.einsum("bld,dhk->blhk", source, p[name]) for name in "kv")
    scores = jnp.einsum("blhk,bmhk->bhlm", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    mixed = jnp.einsum("bhlm,bmhk->blhk", jax.nn.softmax(scores).astype(x.dtype), v)
    return x + jnp.einsum("blhk,hkd->bld", mixed, p["o"])


def block(p, x, seen=None, causal=True):
    x = _attend(x, None, p["self"], causal)
    if seen is not None:
        x = _attend(x, seen, p["cross"], False)
    return x + jax.nn.gelu(_norm(x, p["scale"]) @ p["up"]) @ p["down"]


def embed(p, tokens):
    return p["embed"][tokens] + p["place"][: tokens.shape[1]]


def head(p, x):
    return _norm(x, p["scale"]) @ p["head"]


def cross_entropy(logits, targets):
    scores = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(scores, targets[..., None], axis=-1))


# -------------------------------------------------------------------------------------------------------------------- as one
def init(c, key):
    keys = jax.random.split(key, 4)
    first, last = ends_shapes(c)
    params = {"first": make(keys[0], first, c.dtype), "last": make(keys[1], last, c.dtype),
              "decoders": make(keys[2], block_shapes(c, bool(c.encoders)), c.dtype, (c.decoders,))}
    if c.encoders:
        params["encoders"] = make(keys[3], block_shapes(c), c.dtype, (c.encoders,))
    return params


def loss(c, params, batch):
    """Returns the loss. batch: "text", one token longer than the model sees, and "input" for the encoders, if there are any."""
    text, seen = batch["text"], None
    if c.encoders:
        layer = jax.checkpoint(lambda x, p: (block(p, x, causal=False), None))
        seen = jax.lax.scan(layer, embed(params["first"], batch["input"]), params["encoders"])[0]
    layer = jax.checkpoint(lambda x, p: (block(p, x, seen), None))
    x = jax.lax.scan(layer, embed(params["first"], text[:, :-1]), params["decoders"])[0]
    return cross_entropy(head(params["last"], x), text[:, 1:])


def specs(params):
    """Returns the spec of each parameter for SPMD: heads, hidden units and words are spread over the mesh's axis "model"."""
    by_name = {"q": P(None, "model", None), "k": P(None, "model", None), "v": P(None, "model", None), "o": P("model", None, None),
               "up": P(None, "model"), "down": P("model", None), "embed": P("model", None), "head": P(None, "model")}

    def spec(path, value):
        names = [entry.key for entry in path]
        own = by_name.get(names[-1], P())
        return P(None, *own) if names[0] in ("encoders", "decoders") else own

    return jax.tree_util.tree_map_with_path(spec, params)


# -------------------------------------------------------------------------------------------------------------------- as layers
def layers(c):
    """Returns the layer functions of a decoder-only model and the shapes of their parameters, for pw.pipeline."""
    first, last = ends_shapes(c)
    return [embed, *[block] * c.decoders, head], [first, *[block_shapes(c)] * c.decoders, last]
