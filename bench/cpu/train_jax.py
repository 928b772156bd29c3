"""The workloads with gradients in JAX, compiled by jit."""

import jax
import jax.numpy as jnp
from jax import lax


def flat(p):
    return jnp.concatenate([x.ravel() for x in p.values()])


def convolved(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))


def conv2d_dx(x, w, g):
    return jax.vjp(lambda x: convolved(x, w), x)[1](g)[0]


def conv2d_dw(x, w, g):
    return jax.vjp(lambda w: convolved(x, w), w)[1](g)[0]


def attended(q, k, v, mask=None):
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v


def attention_grad(q, k, v, g):
    def loss(q, k, v):
        return (g * attended(q, k, v)).sum()
    return jnp.concatenate(jax.grad(loss, (0, 1, 2))(q, k, v))


def lstm_grad(x, wx, wh, b):
    def loss(p):
        def step(state, x):
            h, c = state
            z = x @ p["wx"].T + h @ p["wh"].T + p["b"]
            i, f, g, o = jnp.split(z, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((x.shape[1], wh.shape[1]))
        return jnp.square(lax.scan(step, (zero, zero), x)[1]).mean()
    g = jax.grad(loss)({"wx": wx, "wh": wh, "b": b})
    return flat({name: g[name] for name in ("wx", "wh", "b")})


def layers(inputs, names):
    return {a + i: inputs[a + i] for i in names for a in "wb"}


def cross_entropy(x, y):
    p = jax.nn.log_softmax(x)
    return -jnp.take_along_axis(p, y[:, None], 1).mean()


def mlp_step(x, y, **inputs):
    p = layers(inputs, "123")

    def loss(p):
        z = x
        for i in "12":
            z = jax.nn.relu(z @ p["w" + i].T + p["b" + i])
        return cross_entropy(z @ p["w3"].T + p["b3"], y)
    g = jax.grad(loss)(p)
    return flat({name: z - 0.05 * g[name] for name, z in p.items()})


def adam(state, g, t, rate, beta1=0.9, beta2=0.999, eps=1e-8, decay=None):
    p, m, v = state
    m = {k: beta1 * m[k] + (1 - beta1) * g[k] for k in p}
    v = {k: beta2 * v[k] + (1 - beta2) * jnp.square(g[k]) for k in p}
    if decay:
        p = {k: x - rate * decay(k) * x for k, x in p.items()}
    c1, c2 = 1 - beta1 ** t, 1 - beta2 ** t
    p = {k: x - rate * (m[k] / c1) / (jnp.sqrt(v[k] / c2) + eps)
         for k, x in p.items()}
    return p, m, v


def maxpool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2),
                             "VALID")


def cnn_epoch(x, y, **inputs):
    p = layers(inputs, "1234")

    def loss(p, x, y):
        for i in "123":
            x = jax.nn.relu(convolved(x, p["w" + i])
                            + p["b" + i][:, None, None])
            x = maxpool(x) if i == "2" else x
        return cross_entropy(x.mean((2, 3)) @ p["w4"].T + p["b4"], y)

    def step(state, batch):
        t, x, y = batch
        return adam(state, jax.grad(loss)(state[0], x, y), t, 1e-3), None
    zero = {k: jnp.zeros_like(z) for k, z in p.items()}
    n = len(x) // 32
    batches = (jnp.arange(n) + 1.0, x[:32 * n].reshape(n, 32, *x.shape[1:]),
               y[:32 * n].reshape(n, 32))
    state = lax.scan(step, (p, zero, zero), batches)[0][0]
    return flat({name: state[name] for name in p})


GPT = ("characters", "places", "norm1.w", "norm1.b", "qkv", "out", "norm2.w",
       "norm2.b", "up", "down", "norm.w", "norm.b")


def char_gpt_step(x, y, w):
    parts = [{name: w[f"{part}.{name}"] for name in GPT} for part in "pmv"]

    def norm(p, name, x, i=slice(None)):
        d = x - x.mean(-1, keepdims=True)
        d = d * lax.rsqrt(jnp.square(d).mean(-1, keepdims=True) + 1e-5)
        return d * p[name + ".w"][i] + p[name + ".b"][i]

    def loss(p):
        z = p["characters"][x] + p["places"]
        b, n, d = z.shape
        mask = jnp.tril(jnp.ones((n, n), bool))
        for i in range(len(p["qkv"])):
            qkv = norm(p, "norm1", z, i) @ p["qkv"][i].T
            q, k, v = (t.reshape(b, n, 4, -1).swapaxes(1, 2)
                       for t in jnp.split(qkv, 3, -1))
            t = attended(q, k, v, mask).swapaxes(1, 2).reshape(b, n, d)
            z = z + t @ p["out"][i].T
            t = jax.nn.gelu(norm(p, "norm2", z, i) @ p["up"][i].T,
                            approximate=False)
            z = z + t @ p["down"][i].T
        logits = norm(p, "norm", z) @ p["characters"].T
        return cross_entropy(logits.reshape(b * n, -1), y.ravel())

    def decay(name):
        return 0.0 if name in ("norm.w", "norm.b") else 0.1
    state = adam(parts, jax.grad(loss)(parts[0]), 10, 1e-3, beta2=0.99,
                 decay=decay)
    return jnp.concatenate([part[name].ravel() for part in state
                            for name in GPT])
