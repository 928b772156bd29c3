"""Generates tests/grad/peers.axn: gradients in float64 of PyTorch, and of JAX
if it has the function.

    python3 tests/oracle/gradients.py    (ours: torch 2.15 and jax 0.10)

Requires the packages torch, numpy and jax.  If both compute a gradient, they
must agree.  The file contains two weighted sums and the sum of squares of each
gradient (tests/grad/peer.axn), and all elements of gradients at kinks.
"""
import os

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F

jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "grad",
                   "peers.axn")
lines = []


def noise(k, shape):
    i = np.arange(int(np.prod(shape)))
    return (np.sin(7.0 * i + 3.0 * k + 1.0) + 0.1).reshape(shape)


def numbers(x):
    x = x.reshape(-1)
    i = np.arange(x.size, dtype=float)
    return [np.sum(x * np.cos(1.3 * i)), np.sum(x * np.sin(0.9 * i + 1.0)),
            np.sum(x * x)]


def weights(n):
    return np.cos(0.7 * np.arange(n, dtype=float) + 0.3)


def torch_gradients(f, inputs):
    xs = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = f(*xs).reshape(-1)
    (y * torch.tensor(weights(y.numel()))).sum().backward()
    return [np.zeros(x.shape) if x.grad is None else x.grad.numpy()
            for x in xs]


def jax_gradients(f, inputs):
    def loss(*xs):
        y = f(*xs).reshape(-1)
        return (y * weights(y.size)).sum()

    return [np.asarray(g) for g in
            jax.grad(loss, tuple(range(len(inputs))))(*map(jnp.array, inputs))]


def number(v):
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    text = repr(float(v))
    return text if "." in text or "e" in text else text + ".0"


def literal(x):
    if np.ndim(x):
        return "[" + ", ".join(literal(row) for row in x) + "]"
    return number(x)


def agree(name, a, b):
    for x, y in zip(a, b):
        assert np.allclose(x, y, rtol=1e-9, atol=1e-10), (name, x, y)


def case(name, ours, shapes, peer, other=None, first=1):
    """ours: the Axon function; shapes: those of its arguments."""
    inputs = [noise(first + k, s) for k, s in enumerate(shapes)]
    got = torch_gradients(peer, inputs)
    if other:
        agree(name, got, jax_gradients(other, inputs))
    wanted = np.concatenate([numbers(g) for g in got])
    arguments = " ".join(f"(p.noise {first + k} {list(s)})"
                         for k, s in enumerate(shapes))
    lines.append(f'do p.check{len(shapes)} "{name}" ({ours}) {arguments} '
                 f"{literal(wanted)}")


def exact(name, ours, x, peer, other=None):
    """The gradient of a function to one float, element by element."""
    x = np.array(x, dtype=float)
    t = torch.tensor(x, requires_grad=True)
    peer(t).backward()
    got = t.grad.numpy()
    if other:
        theirs = np.asarray(jax.grad(other)(jnp.array(x)))
        assert np.allclose(got, theirs, rtol=1e-9, equal_nan=True), \
            (name, got, theirs)
    axes = ", ".join(map(str, x.shape))
    lines.append(f'do p.same "{name}" (grad ({ours}) ({literal(x)} : '
                 f"f64[{axes}])) {literal(got)}")


def section(text):
    lines.append(f"\n(* {text} *)")


def jax_conv(stride=1, padding=0, dilation=1, groups=1):
    def f(x, w, b=None):
        pad = [(padding, padding)] * (x.ndim - 2)
        n = x.ndim - 2
        y = jax.lax.conv_general_dilated(
            x, w, (stride,) * n, pad, rhs_dilation=(dilation,) * n,
            feature_group_count=groups)
        return y if b is None else y + b.reshape((1, -1) + (1,) * n)
    return f


def convolutions():
    section("convolutions")
    for s in (1, 2, 3):
        for d in (1, 2):
            for p in (0, 1, 2):
                o = f"~stride:{s} ~padding:{p} ~dilation:{d}"
                case(f"conv2d {s} {p} {d}",
                     f"fn x w b => nn.conv2d {o} {{w, b}} x",
                     [(2, 2, 7, 8), (3, 2, 3, 2), (3,)],
                     lambda x, w, b: F.conv2d(x, w, b, s, p, d),
                     jax_conv(s, p, d))
                case(f"conv1d {s} {p} {d}",
                     f"fn x w b => nn.conv1d {o} {{w, b}} x",
                     [(2, 2, 9), (3, 2, 3), (3,)],
                     lambda x, w, b: F.conv1d(x, w, b, s, p, d),
                     jax_conv(s, p, d))
        for p in (0, 1, 2):
            o = f"~stride:{s} ~padding:{p}"
            case(f"grouped_conv2d {s} {p}",
                 f"fn x w b => nn.grouped_conv2d ~groups:2 {o} {{w, b}} x",
                 [(2, 4, 6, 7), (6, 2, 3, 2), (6,)],
                 lambda x, w, b: F.conv2d(x, w, b, s, p, 1, 2),
                 jax_conv(s, p, 1, 2))
            case(f"depthwise_conv2d {s} {p}",
                 f"fn x w b => nn.depthwise_conv2d {o} {{w, b}} x",
                 [(2, 3, 6, 7), (3, 3, 2), (3,)],
                 lambda x, w, b: F.conv2d(x, w[:, None], b, s, p, 1, 3))
            case(f"conv_transpose2d {s} {p}",
                 f"fn x w b => nn.conv_transpose2d {o} {{w, b}} x",
                 [(2, 3, 4, 3), (3, 2, 3, 4), (2,)],
                 lambda x, w, b: F.conv_transpose2d(x, w, b, s, p))
            case(f"unbiased_conv2d {s} {p}",
                 f"fn x w => nn.unbiased_conv2d {o} w x",
                 [(1, 2, 6, 6), (2, 2, 1, 3)],
                 lambda x, w: F.conv2d(x, w, None, s, p), jax_conv(s, p))
    case("patches", "fn x w b => nn.patches {w, b} x",
         [(2, 3, 4, 6), (5, 3, 2, 2), (5,)],
         lambda x, w, b: F.conv2d(x, w, b, 2).flatten(2).transpose(1, 2))


def pooling():
    section("pooling")
    for k in (2, 3):
        for s in (1, 2, 3):
            for p in (0, 1):
                case(f"maxpool {k} {s} {p}",
                     f"nn.maxpool ~size:{k} ~stride:{s} ~padding:{p}",
                     [(2, 2, 6, 7)], lambda x: F.max_pool2d(x, k, s, p))
            case(f"avgpool {k} {s}", f"nn.avgpool ~size:{k} ~stride:{s}",
                 [(2, 2, 6, 7)], lambda x: F.avg_pool2d(x, k, s))
            case(f"maxpool1d {k} {s}", f"nn.maxpool1d ~size:{k} ~stride:{s}",
                 [(2, 2, 9)], lambda x: F.max_pool1d(x, k, s))
    case("global_avgpool", "nn.global_avgpool", [(2, 3, 4, 5)],
         lambda x: x.mean((2, 3)), lambda x: x.mean((2, 3)))
    case("global_maxpool", "nn.global_maxpool", [(2, 3, 4, 5)],
         lambda x: x.amax((2, 3)), lambda x: x.max((2, 3)))
    for k in (2, 3):
        case(f"upsample {k}", f"nn.upsample ~scale:{k}", [(1, 2, 3, 4)],
             lambda x: F.interpolate(x, scale_factor=k))


def norms():
    section("norms")
    case("layernorm", "fn x w b => nn.layernorm {w, b} x",
         [(2, 3, 5), (5,), (5,)],
         lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5))
    case("layernorm, one column", "fn x w b => nn.layernorm {w, b} x",
         [(3, 1), (1,), (1,)],
         lambda x, w, b: F.layer_norm(x, (1,), w, b, 1e-5))
    case("rmsnorm", "fn x w => nn.rmsnorm {w} x", [(2, 3, 5), (5,)],
         lambda x, w: F.rms_norm(x, (5,), w, 1e-5))
    case("batchnorm, training",
         "fn x w b => nn.batchnorm {w, b} (nn.batch_stats x) x",
         [(4, 3, 2, 3), (3,), (3,)],
         lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5))
    case("batchnorm, statistics",
         "fn x w m v => nn.batchnorm {w, b = zeros [3]} {mean = m, var = "
         "square v + 0.5} x", [(4, 3, 2), (3,), (3,), (3,)],
         lambda x, w, m, v: (x - m[:, None]) /
         torch.sqrt(v * v + 0.5 + 1e-5)[:, None] * w[:, None])
    for g in (1, 2, 4):
        case(f"groupnorm {g}",
             f"fn x w b => nn.groupnorm ~groups:{g} {{w, b}} x",
             [(2, 4, 3, 2), (4,), (4,)],
             lambda x, w, b: F.group_norm(x, g, w, b, 1e-5))
    case("norm", "norm ~axis:1", [(3, 4)], lambda x: x.norm(dim=1),
         lambda x: jnp.linalg.norm(x, axis=1))
    case("normalize", "normalize", [(3, 4)],
         lambda x: x / x.norm(dim=1, keepdim=True))
    case("var", "var ~axis:0", [(3, 4)], lambda x: x.var(0, correction=0),
         lambda x: x.var(0))
    case("std", "std ~axis:(0, 1)", [(3, 4, 2)],
         lambda x: x.std((0, 1), correction=0), lambda x: x.std((0, 1)))
    case("distances", "distances", [(3, 4), (5, 4)], torch.cdist)


def jax_attention(q, k, v):
    s = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return jax.nn.softmax(s) @ v


def attention():
    section("attention")
    three = [(2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3)]
    case("attention", "nn.attention", three, F.scaled_dot_product_attention,
         jax_attention)
    case("attention, causal", "nn.attention ~causal:true", three,
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v,
                                                        is_causal=True))
    case("attention, causal, fewer rows", "nn.attention ~causal:true",
         [(2, 3, 4), (2, 6, 4), (2, 6, 3)],
         lambda q, k, v: F.scaled_dot_product_attention(
             q, k, v, attn_mask=torch.ones(3, 6).tril().bool()))
    case("attention, one key", "nn.attention", [(3, 4), (1, 4), (1, 2)],
         F.scaled_dot_product_attention, jax_attention)
    case("attention, bias",
         "fn q k v b => softmax (q @ transpose k / sqrt 4.0 + b) @ v",
         [(2, 5, 4), (2, 6, 4), (2, 6, 3), (5, 6)],
         lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, b))
    case("attention, soft-cap",
         "fn q k v => softmax (2.0 * tanh (q @ transpose k / 4.0)) @ v",
         [(2, 5, 4), (2, 6, 4), (2, 6, 3)],
         lambda q, k, v: torch.softmax(
             2 * torch.tanh(q @ k.transpose(-1, -2) / 4), -1) @ v)
    case("attention, masked keys",
         "fn q k v => softmax (for i < 5, j < 6 => "
         "if (i + j) % 3 == 0 then -inf else (q @ transpose k).[i, j]) @ v",
         [(5, 4), (6, 4), (6, 3)],
         lambda q, k, v: torch.softmax((q @ k.T).masked_fill(
             (torch.arange(5)[:, None] + torch.arange(6)) % 3 == 0,
             -torch.inf), -1) @ v)
    case("grouped_attention", "nn.grouped_attention ~causal:true",
         [(2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 4)],
         lambda q, k, v: F.scaled_dot_product_attention(
             q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1),
             is_causal=True))

    def heads(x):
        return x.reshape(2, 5, 2, 3).transpose(1, 2)

    case("multihead",
         "fn x w u b => nn.multihead ~heads:2 ~causal:true {q = {w, b}, "
         "k = {w = u, b}, v = {w = w * u, b}, o = {w = w + u, b}} x",
         [(2, 5, 6), (6, 6), (6, 6), (6,)],
         lambda x, w, u, b: (F.scaled_dot_product_attention(
             heads(x @ w.T + b), heads(x @ u.T + b), heads(x @ (w * u).T + b),
             is_causal=True).transpose(1, 2).reshape(2, 5, 6)
             @ (w + u).T + b))

    def rope(x):
        angle = torch.arange(5.)[:, None] / 10000 ** (torch.arange(2.) / 2)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack((u * angle.cos() - v * angle.sin(),
                            u * angle.sin() + v * angle.cos()),
                           -1).flatten(-2)

    case("rope", "nn.rope", [(2, 5, 4)], rope)
    case("swiglu", "fn x g u d => nn.swiglu {gate = g, up = u, down = d} x",
         [(2, 3, 4), (5, 4), (5, 4), (3, 5)],
         lambda x, g, u, d: (F.silu(x @ g.T) * (x @ u.T)) @ d.T)


def cell(kind, wx, wh, bx, bh, x, state):
    layer = getattr(torch.nn, kind)(x.shape[2], wh.shape[1])
    names = {"weight_ih_l0": wx, "weight_hh_l0": wh, "bias_ih_l0": bx,
             "bias_hh_l0": bh}
    return torch.func.functional_call(layer, names, (x, state))


def recurrent():
    section("recurrent layers")

    def jax_rnn(wx, wh, b, x):
        def step(h, x):
            h = jnp.tanh(x @ wx.T + h @ wh.T + b)
            return h, h

        return jax.lax.scan(step, jnp.array(noise(9, (2, 3))), x)[1]

    for t in (1, 4, 100):
        case(f"rnn {t}",
             "fn wx wh b x => snd (nn.rnn {wx, wh, b} (p.noise 9 [2, 3]) x)",
             [(3, 2), (3, 3), (3,), (t, 2, 2)],
             lambda wx, wh, b, x: cell(
                 "RNN", wx, wh, b, 0 * b, x,
                 torch.tensor(noise(9, (1, 2, 3))))[0], jax_rnn)
        case(f"lstm {t}",
             "fn wx wh b x => snd (nn.lstm {wx, wh, b} (p.noise 9 [2, 3], "
             "p.noise 8 [2, 3]) x)",
             [(12, 2), (12, 3), (12,), (t, 2, 2)],
             lambda wx, wh, b, x: cell(
                 "LSTM", wx, wh, b, 0 * b, x,
                 (torch.tensor(noise(9, (1, 2, 3))),
                  torch.tensor(noise(8, (1, 2, 3)))))[0])
        case(f"gru {t}",
             "fn wx wh b x => snd (nn.gru {wx, wh, bx = b, bh = 0.5 * b} "
             "(p.noise 9 [2, 3]) x)",
             [(9, 2), (9, 3), (9,), (t, 2, 2)],
             lambda wx, wh, b, x: cell(
                 "GRU", wx, wh, b, 0.5 * b, x,
                 torch.tensor(noise(9, (1, 2, 3))))[0])
    case("lstm, last state",
         "fn wx wh h x => case nn.lstm {wx, wh, b = zeros [12]} (h, h * h) x "
         "of ((h, c), _) => h + 2.0 * c",
         [(12, 2), (12, 3), (2, 3), (5, 2, 2)],
         lambda wx, wh, h, x: (lambda s: s[0] + 2 * s[1])(cell(
             "LSTM", wx, wh, torch.zeros(12), torch.zeros(12), x,
             (h[None], (h * h)[None]))[1]))


def losses():
    section("losses")
    labels = torch.tensor([2, 0, 3, 3])
    case("cross_entropy", "fn x => nn.cross_entropy x [2, 0, 3, 3]", [(4, 5)],
         lambda x: F.cross_entropy(x, labels))
    two = [(3, 4), (3, 4)]
    case("binary_cross_entropy", "nn.binary_cross_entropy", two,
         F.binary_cross_entropy_with_logits)
    case("mse", "nn.mse", two, F.mse_loss, lambda x, y: ((x - y) ** 2).mean())
    case("mae", "nn.mae", two, F.l1_loss, lambda x, y: abs(x - y).mean())
    for d in (0.5, 1.0):
        case(f"huber {d}", f"nn.huber ~delta:{d}", two,
             lambda x, y: F.huber_loss(x, y, delta=d))


def activations():
    section("activations")
    for name, peer, other in [
            ("relu", F.relu, jax.nn.relu), ("elu", F.elu, jax.nn.elu),
            ("sigmoid", torch.sigmoid, jax.nn.sigmoid),
            ("softplus", F.softplus, jax.nn.softplus),
            ("silu", F.silu, jax.nn.silu),
            ("leaky_relu", F.leaky_relu, jax.nn.leaky_relu),
            ("gelu", F.gelu, lambda x: jax.nn.gelu(x, approximate=False))]:
        case(name, f"fn x => nn.{name} (3.0 * x)", [(3, 5)],
             lambda x: peer(3 * x), lambda x: other(3 * x))
    case("gelu_tanh", "nn.gelu_tanh", [(3, 5)],
         lambda x: 0.5 * x * (1 + torch.tanh(
             0.7978845608 * (x + 0.044715 * x ** 3))))
    case("softsign", "softsign", [(3, 5)], F.softsign, jax.nn.soft_sign)
    for axis in (0, 1, 2):
        for name in ("softmax", "log_softmax"):
            case(f"{name} {axis}", f"{name} ~axis:{axis}", [(2, 3, 4)],
                 lambda x: getattr(torch, name)(x, axis),
                 lambda x: getattr(jax.nn, name)(x, axis))
        case(f"logsumexp {axis}", f"logsumexp ~axis:{axis}", [(2, 3, 4)],
             lambda x: torch.logsumexp(x, axis),
             lambda x: jax.nn.logsumexp(x, axis))
    case("logsumexp, all", "fn x => logsumexp (30.0 * x)", [(2, 3, 4)],
         lambda x: torch.logsumexp(30 * x, (0, 1, 2)),
         lambda x: jax.nn.logsumexp(30 * x))


def tensors():
    section("tensors")
    case("einsum", 'fn x y z => einsum "i j, j k, k l -> i l" x y z',
         [(2, 3), (3, 4), (4, 2)],
         lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z))
    case("einsum, trace", 'fn x y => einsum "i i, i j -> j" x y',
         [(3, 3), (3, 4)],
         lambda x, y: torch.einsum("ii,ij->j", x, y))
    case("einsum, batch",
         'fn x y z => einsum "b i j, b k j, b i -> b k" x y z',
         [(2, 3, 4), (2, 5, 4), (2, 3)],
         lambda x, y, z: torch.einsum("bij,bkj,bi->bk", x, y, z))
    case("matmul, batch", "fn x y => x @ y", [(2, 3, 4), (4, 5)],
         lambda x, y: x @ y, lambda x, y: x @ y)
    case("kron", "kron", [(2, 3), (3, 2)], torch.kron, jnp.kron)
    case("outer", "outer", [(3,), (4,)], torch.outer, jnp.outer)
    case("matrix_power", "matrix_power 5", [(3, 3)],
         lambda x: torch.linalg.matrix_power(x, 5))
    for axis in (0, 1):
        case(f"cumsum {axis}", f"cumsum ~axis:{axis}", [(3, 4)],
             lambda x: x.cumsum(axis), lambda x: x.cumsum(axis))
        case(f"sort {axis}", f"sort ~axis:{axis}", [(3, 4)],
             lambda x: x.sort(axis)[0], lambda x: jnp.sort(x, axis))
        case(f"prod {axis}", f"prod ~axis:{axis}", [(3, 4)],
             lambda x: x.prod(axis), lambda x: x.prod(axis))
        case(f"max {axis}", f"max ~axis:{axis}", [(3, 4)],
             lambda x: x.amax(axis), lambda x: x.max(axis))
    def parts(z, stack):
        return stack([z.real, z.imag])
    to_parts = "fn z => concat ~axis:0 (z.re.[new, ...], z.im.[new, ...])"
    for n in (5, 6):
        case(f"rfft {n}", f"fft.rfft >> ({to_parts})", [(2, n)],
             lambda x: parts(torch.fft.rfft(x), torch.stack),
             lambda x: parts(jnp.fft.rfft(x), jnp.stack))
        case(f"irfft {n}", f"fn re im => fft.irfft {n} {{re, im}}",
             [(2, n // 2 + 1), (2, n // 2 + 1)],
             lambda re, im: torch.fft.irfft(torch.complex(re, im), n),
             lambda re, im: jnp.fft.irfft(re + 1j * im, n))
        case(f"fft {n}", f"fn re im => ({to_parts}) (fft.fft {{re, im}})",
             [(2, n), (2, n)],
             lambda re, im: parts(torch.fft.fft(torch.complex(re, im)),
                                  torch.stack),
             lambda re, im: parts(jnp.fft.fft(re + 1j * im), jnp.stack))
        case(f"absolute values of ifft2 {n}",
             "fn re im => complex.cabs (fft.ifft ~axis:all {re, im})",
             [(3, n), (3, n)],
             lambda re, im: torch.fft.ifft2(torch.complex(re, im)).abs(),
             lambda re, im: jnp.abs(jnp.fft.ifft2(re + 1j * im)))
    case("cumprod", "cumprod", [(6,)], lambda x: x.cumprod(0),
         lambda x: x.cumprod())
    case("topk", "fn x => fst (topk 3 x)", [(3, 6)],
         lambda x: x.topk(3)[0])
    case("gather", "fn x => gather x [[2, 0, 2], [1, 1, 3]]", [(4, 3)],
         lambda x: x[torch.tensor([[2, 0, 2], [1, 1, 3]])])
    case("embedding", "fn w => nn.embedding {w} [2, 0, 2, 5]", [(6, 3)],
         lambda w: F.embedding(torch.tensor([2, 0, 2, 5]), w))
    case("scatter", "fn x y => scatter x [2, 0, 2] y", [(4, 3), (3, 3)],
         lambda x, y: x.index_add(0, torch.tensor([2, 0, 2]), y))
    case("roll", "roll ~axis:1 2", [(3, 5)], lambda x: x.roll(2, 1))
    case("tile", "tile ~axis:0 3", [(2, 3)], lambda x: x.tile(3, 1))
    case("pad", "nn.pad2d 2", [(2, 3, 4)], lambda x: F.pad(x, (2, 2, 2, 2)))
    case("tril", "tril", [(4, 4)], torch.tril, jnp.tril)
    case("diff", "diff", [(6,)], torch.diff, jnp.diff)
    case("correlate", "correlate", [(3,), (8,)],
         lambda w, x: F.conv1d(x[None, None], w[None, None])[0, 0])
    case("convolve", "convolve", [(3,), (8,)],
         lambda w, x: F.conv1d(x[None, None], w.flip(0)[None, None])[0, 0])
    case("cov", "cov", [(6,), (6,)],
         lambda x, y: ((x - x.mean()) * (y - y.mean())).mean())
    case("corr", "corr", [(6,), (6,)],
         lambda x, y: torch.corrcoef(torch.stack((x, y)))[0, 1])
    case("median", "median", [(3, 5)], lambda x: x.median(1)[0])
    case("pow", "fn x y => pow (abs x + 0.5) y", [(3, 4), (3, 4)],
         lambda x, y: (x.abs() + 0.5) ** y)
    case("atan2", "atan2", [(3, 4), (3, 4)], torch.atan2, jnp.arctan2)
    case("modulo", "fn x y => x % y", [(3, 4), (3, 4)], torch.remainder,
         jnp.mod)


def kinks():
    section("kinks, ties and unused values")
    inf = np.inf
    exact("relu", "fn x => sum (nn.relu x)", [-1., 0, 2],
          lambda x: F.relu(x).sum(), lambda x: jax.nn.relu(x).sum())
    exact("abs", "fn x => sum (abs x)", [-1., 0, 2],
          lambda x: x.abs().sum())
    exact("max", "max", [3., 1, 3], lambda x: x.amax(), jnp.max)
    exact("min", "min", [[1., 1], [1, 2]], lambda x: x.amin(), jnp.min)
    exact("maximum", "fn x => sum (maximum x 1.0)", [0., 1, 2],
          lambda x: torch.maximum(x, torch.ones(())).sum(),
          lambda x: jnp.maximum(x, 1.).sum())
    exact("minimum", "fn x => sum (minimum x 1.0)", [0., 1, 2],
          lambda x: torch.minimum(x, torch.ones(())).sum(),
          lambda x: jnp.minimum(x, 1.).sum())
    exact("norm", "norm", [0., 0, 0], torch.norm)
    exact("leaky_relu", "fn x => sum (nn.leaky_relu x)", [-1., 1],
          lambda x: F.leaky_relu(x).sum())
    for x in ([2., 0, 3], [0., 0, 3], [0., 0, 0], [2., 4, 3]):
        exact(f"prod {x}", "prod", x, torch.prod, jnp.prod)
    exact("cumprod", "fn x => sum (cumprod x)", [2., 0, 3],
          lambda x: x.cumprod(0).sum(), lambda x: x.cumprod().sum())
    for y in (0., 1, 2, 3, 0.5):
        exact(f"pow {y}", f"fn x => sum (pow x {number(y)})", [0., 2],
              lambda x: (x ** y).sum(),
              (lambda x: (x ** y).sum()) if y else None)  # JAX: NaN
    exact("pow by the exponent", "fn y => sum (pow 0.0 y)", [1., 2],
          lambda y: (torch.zeros(()) ** y).sum())
    exact("logsumexp", "logsumexp", [1., -inf, 2], lambda x: x.logsumexp(0),
          jax.nn.logsumexp)
    exact("softmax", "fn x => sum (softmax x * [1.0, 2.0, 3.0])",
          [1., -inf, 2],
          lambda x: (x.softmax(0) * torch.tensor([1., 2, 3])).sum(),
          lambda x: (jax.nn.softmax(x) * jnp.array([1., 2, 3])).sum())
    exact("log_softmax", "fn x => (log_softmax x).[2]", [1., -inf, 2],
          lambda x: x.log_softmax(0)[2])
    exact("softplus", "fn x => sum (nn.softplus x)", [-800., 0, 800],
          lambda x: F.softplus(x).sum(), lambda x: jax.nn.softplus(x).sum())
    exact("sigmoid", "fn x => sum (nn.sigmoid x)", [-800., 0, 800],
          lambda x: x.sigmoid().sum(), lambda x: jax.nn.sigmoid(x).sum())
    exact("silu", "fn x => sum (nn.silu x)", [-800., 0, 800],
          lambda x: F.silu(x).sum(), lambda x: jax.nn.silu(x).sum())
    exact("gelu", "fn x => sum (nn.gelu x)", [-800., 0, 800],
          lambda x: F.gelu(x).sum())
    exact("tanh", "fn x => sum (tanh x)", [-800., 0, 800],
          lambda x: x.tanh().sum(), lambda x: jnp.tanh(x).sum())
    exact("sqrt", "fn x => sum (sqrt x)", [0., 4], lambda x: x.sqrt().sum(),
          lambda x: jnp.sqrt(x).sum())
    exact("log, selected", "fn x => sum (select (x > 0.0) (log x) 0.0)",
          [2., 1], lambda x: torch.where(x > 0, x.log(), 0 * x).sum())


for part in (convolutions, pooling, norms, attention, recurrent, losses,
             activations, tensors, kinks):
    part()
with open(OUT, "w") as out:
    out.write("(* Generated by tests/oracle/gradients.py: gradients of PyTorch and "
              "JAX. *)\nimport \"peer\" as p\nimport nn\n")
    out.write("\n".join(lines) + "\n")
print(len(lines), "lines")
