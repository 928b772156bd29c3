"""The workloads in JAX, compiled by jit."""

import jax
import jax.numpy as jnp
from jax import lax

import train_jax

VERSION = f"JAX {jax.__version__}"


def supports(workload):
    return workload.training or workload.kernel in globals()


def prepare(workload, inputs):
    f = jax.jit(getattr(train_jax, workload.kernel) if workload.training
                else globals()[workload.kernel])
    inputs = {name: array(x, workload.inputs[name])
              for name, x in inputs.items()}
    return lambda: f(**inputs).block_until_ready()


def array(x, like):
    if isinstance(x, dict):
        return {name: jnp.asarray(y) for name, y in x.items()}
    x = jnp.asarray(x)
    return x.astype(jnp.bfloat16) if like.dtype == "bf16" else x


def finish(result):
    import numpy as np
    return np.asarray(result.astype(jnp.float32)
                      if result.dtype == jnp.bfloat16 else result)


def matmul(a, b):
    return a @ b


matmul_bf16 = matmul


def linear(x, w, b):
    return x @ w.T + b


def linear_gelu(x, w, b):
    return jax.nn.gelu(linear(x, w, b), approximate=False)


def linear_silu(x, w, b):
    return jax.nn.silu(linear(x, w, b))


def linear_tanh(x, w, b):
    return jnp.tanh(linear(x, w, b))


def tanh_chain(x):
    return jnp.tanh(1.5 * x + 0.5) * x


def gaussian(x):
    return x * jnp.exp(-0.5 * x * x)


def triad(x, y, z):
    return x * y + z


def smooth(x, y):
    return jnp.sqrt(x * x + y * y) / (1 + abs(x - y))


def softmax(x):
    return jax.nn.softmax(x)


def log_softmax(x):
    return jax.nn.log_softmax(x)


def layernorm(x, w, b):
    d = x - x.mean(-1, keepdims=True)
    v = (d * d).mean(-1, keepdims=True)
    return d * lax.rsqrt(v + 1e-5) * w + b


def rmsnorm(x):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def sum(x):
    return x.sum()


def column_sums(x):
    return x.sum(0)


def variance(x):
    return x.var()


def row_max(x):
    return x.max(1)


def row_argmax(x):
    return x.argmax(1)


def transposed(x):
    return x.T


def cumulative(x):
    return x.cumsum(1)


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    return jax.nn.softmax(scores) @ v


def attention_causal(q, k, v):
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    seen = jnp.tri(q.shape[-2], dtype=bool)
    return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v


def convolved(x, w, stride, padding, groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), [(padding, padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        feature_group_count=groups)


def conv2d(x, w, b):
    return convolved(x, w, 1, w.shape[-1] // 2) + b[:, None, None]


def depthwise(x, w, b):
    return convolved(x, w[:, None], 1, w.shape[-1] // 2, w.shape[0]) \
        + b[:, None, None]


def mlp(x, w1, b1, w2, b2, w3, b3):
    x = jax.nn.relu(linear(x, w1, b1))
    x = jax.nn.relu(linear(x, w2, b2))
    return linear(x, w3, b3)


def gather(w, i):
    return w[i]


def embedding_bag(w, i):
    return w[i].sum(1)


def black_scholes(s, k, t):
    r, v = 0.02, 0.3
    spread = v * jnp.sqrt(t)
    d1 = (jnp.log(s / k) + (r + 0.5 * v * v) * t) / spread
    d2 = d1 - spread
    worth = k * jnp.exp(-r * t)
    below = lambda x: 0.5 * (1 + lax.erf(x * 0.5 ** 0.5))
    call = s * below(d1) - worth * below(d2)
    return jnp.stack([call, call - s + worth])


def heat(x):
    def step(_, x):
        return x.at[1:-1, 1:-1].add(0.1 * (
            x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
            - 4 * x[1:-1, 1:-1]))
    return lax.fori_loop(0, 100, step, x)


def kmeans(x, c):
    def step(_, c):
        of = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
        member = jax.nn.one_hot(of, c.shape[0])
        return member.T @ x / jnp.maximum(member.sum(0), 1)[:, None]
    return lax.fori_loop(0, 10, step, c)


def nbody(x, m):
    d = x[None, :, :] - x[:, None, :]
    r = (d * d).sum(-1) + 1e-2
    return jnp.einsum("ij,ijk->ik", m / (r * jnp.sqrt(r)), d)


# ---- models

def resnet18(x, w):
    def part(name, x, stride, padding, at=None):
        get = (lambda n: w[n]) if at is None else (lambda n: w[n][at])
        scale = get(f"p.{name}.norm.w") * lax.rsqrt(get(f"s.{name}.var") + 1e-5)
        shift = get(f"p.{name}.norm.b") - get(f"s.{name}.mean") * scale
        x = convolved(x, get(f"p.{name}.conv"), stride, padding)
        return x * scale[:, None, None] + shift[:, None, None]

    def block(name, x, stride=1, at=None):
        y = jax.nn.relu(part(f"{name}.a", x, stride, 1, at))
        return part(f"{name}.b", y, 1, 1, at)

    x = jax.nn.relu(part("stem", x, 2, 3))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                          ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i in range(2):
        x = jax.nn.relu(x + block("stage1", x, at=i))
    for s in ("stage2", "stage3", "stage4"):
        x = jax.nn.relu(block(f"{s}.first", x, 2)
                        + part(f"{s}.short", x, 2, 0))
        x = jax.nn.relu(x + block(f"{s}.rest", x, at=0))
    return linear(x.mean((2, 3)), w["p.head.w"], w["p.head.b"])


def gpt2(i, w):
    b, n = i.shape
    d = w["places"].shape[1]
    x = w["tokens.w"][i] + w["places"][:n]
    for k in range(w["blocks.norm1.w"].shape[0]):
        get = lambda name: (w[f"blocks.{name}.w"][k], w[f"blocks.{name}.b"][k])
        y = linear(layernorm(x, *get("norm1")), *get("attention.qkv"))
        q, key, v = (z.reshape(b, n, 12, 64).swapaxes(1, 2)
                     for z in jnp.split(y, 3, -1))
        y = attention_causal(q, key, v).swapaxes(1, 2).reshape(b, n, d)
        x = x + linear(y, *get("attention.out"))
        y = jax.nn.gelu(linear(layernorm(x, *get("norm2")), *get("up")))
        x = x + linear(y, *get("down"))
    return layernorm(x, w["norm.w"], w["norm.b"]) @ w["tokens.w"].T
