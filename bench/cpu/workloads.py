"""The workloads: names, inputs, minimal operations and bytes, and goals.
KERNEL.axn is the program as a user writes it in Axon.  The functions KERNEL in
peer_numpy.py, peer_torch.py and peer_jax.py are its counterparts; those with
gradients are in train_torch.py and train_jax.py."""

from dataclasses import dataclass, field

from data import bf16, f32, i64, starts, tensors


@dataclass
class Workload:
    name: str
    kernel: str
    inputs: dict                # name: data.Array, or data.Weights
    flops: float = 0            # additions and multiplications, at least
    bytes: float = 0            # of memory, read and written once
    goals: list = field(default_factory=list)   # (factor, peer or limit)
    constants: tuple = ()       # parameters of a model: prepared once
    tolerance: float = 1e-4     # relative to the largest magnitude
    peak: str = "fma"           # the limit that flops are measured against
    training: bool = False      # gradients: in train_torch.py, train_jax.py
    other: bool = False         # additional sizes and chains without goals


best = "best"


def once(inputs, result):
    """Bytes when each input is read once and the result written once."""
    return sum(x.bytes for x in inputs.values()) + result


def matmul(m, n, k, name=None, **more):
    inputs = {"a": f32(m, k), "b": f32(k, n)}
    return Workload(name or f"matmul {m}x{n}x{k}", "matmul", inputs,
                    2 * m * n * k, once(inputs, 4 * m * n), **more)


def square(n, **more):
    return matmul(n, n, n, f"matmul {n}", **more)


def matmul_bf16(m, n, k, **more):
    inputs = {"a": bf16(m, k), "b": bf16(k, n)}
    return Workload(f"matmul bf16 {m}x{n}x{k}", "matmul_bf16", inputs,
                    2 * m * n * k, once(inputs, 2 * m * n), peak="bf16",
                    tolerance=2e-2, **more)


def linear(kernel, m, n, k, **more):
    inputs = {"x": f32(m, k), "w": f32(n, k, scale=k ** -0.5), "b": f32(n)}
    return Workload(f"{kernel} {m}x{n}x{k}", kernel, inputs, 2 * m * n * k,
                    once(inputs, 4 * m * n), constants=("w", "b"), **more)


def pointwise(kernel, n, arrays="x", out=None, **more):
    inputs = {a: f32(n) for a in arrays}
    return Workload(f"{kernel} {n >> 20}M" if n >= 1 << 20 else
                    f"{kernel} {n}", kernel, inputs,
                    bytes=once(inputs, 4 * n if out is None else out), **more)


def rows(kernel, n, m, affine=False, out=None, **more):
    inputs = {"x": f32(n, m)}
    if affine:
        inputs |= {"w": f32(m), "b": f32(m)}
    return Workload(f"{kernel} {n}x{m}", kernel, inputs,
                    bytes=once(inputs, 4 * (n * m if out is None else out)),
                    **more)


def attention(kernel, b, h, n, d, **more):
    inputs = {x: f32(b, h, n, d) for x in "qkv"}
    flops = 4 * b * h * n * n * d / (2 if "causal" in kernel else 1)
    return Workload(f"{kernel} {b}x{h}x{n}x{d}", kernel, inputs, flops,
                    once(inputs, 4 * b * h * n * d), **more)


def conv(kernel, n, c, o, h, k, stride=1, **more):
    out = (h + 2 * (k // 2) - k) // stride + 1
    each = 1 if "depthwise" in kernel else c
    shape = (c, k, k) if "depthwise" in kernel else (o, c, k, k)
    inputs = {"x": f32(n, c, h, h),
              "w": f32(*shape, scale=(each * k * k) ** -0.5), "b": f32(o)}
    return Workload(f"{kernel} {n}x{c}x{h}x{h} -> {o}, {k}x{k}", kernel, inputs,
                    2 * n * o * out * out * each * k * k,
                    once(inputs, 4 * n * o * out * out),
                    constants=("w", "b"), **more)


def mlp(batch, *widths, kernel="mlp", **more):
    inputs, flops = {"x": f32(batch, widths[0])}, 0
    for i, (n, m) in enumerate(zip(widths, widths[1:]), 1):
        inputs |= {f"w{i}": f32(m, n, scale=n ** -0.5), f"b{i}": f32(m)}
        flops += 2 * batch * n * m
    return Workload(f"{kernel} {'-'.join(map(str, widths))} batch {batch}",
                    kernel, inputs, flops, once(inputs, 4 * batch * widths[-1]),
                    constants=tuple(inputs)[1:], **more)


def batched(count, n, **more):
    inputs = {x: f32(count, n, n) for x in "ab"}
    return Workload(f"batched {count}x{n}x{n}x{n}", "matmul", inputs,
                    2 * count * n ** 3, once(inputs, 4 * count * n * n), **more)


def gather(count, n, d, **more):
    inputs = {"w": f32(n, d), "i": i64(count, most=n)}
    return Workload(f"gather {count} of {n}x{d}", "gather", inputs,
                    bytes=8 * count + 8 * count * d, constants=("w",), **more)


def embedding_bag(bags, each, n, d, **more):
    inputs = {"w": f32(n, d), "i": i64(bags, each, most=n)}
    return Workload(f"embedding bag {bags}x{each} of {n}x{d}", "embedding_bag",
                    inputs, bytes=8 * bags * each + 4 * bags * d * (each + 1),
                    constants=("w",), **more)


def ragged_bag(bags, total, n, d, **more):
    inputs = {"w": f32(n, d), "start": starts(bags, total),
              "i": i64(total, most=n)}
    return Workload(f"ragged bag {bags} of {total}, {n}x{d}", "ragged_bag",
                    inputs, bytes=8 * total + 4 * d * (total + bags),
                    constants=("w",), **more)


def csr(kernel, n, total, columns=None, **more):
    """A square matrix in compressed sparse rows, times a vector or matrix."""
    shape = (n, columns) if columns else (n,)
    inputs = {"start": starts(n, total), "column": i64(total, most=n),
              "value": f32(total), "x": f32(*shape)}
    each = columns or 1
    return Workload(f"{kernel} {n} with {total}, {each}", kernel, inputs,
                    2 * total * each,
                    once(inputs, 4 * n * each), **more)


def resnet18(batch, **more):
    flops = 2 * 1814073344 * batch
    inputs = {"x": f32(batch, 3, 224, 224), "w": tensors("resnet18")}
    return Workload(f"resnet18 batch {batch}", "resnet18", inputs, flops,
                    constants=("w",), tolerance=1e-3, **more)


def gpt2(batch, length, **more):
    d, layers, vocabulary = 768, 12, 50257
    flops = 2 * batch * length * (layers * 12 * d * d + vocabulary * d) \
        + 2 * batch * layers * length * length * d
    inputs = {"i": i64(batch, length, most=vocabulary), "w": tensors("gpt2")}
    return Workload(f"gpt2 small {batch}x{length}", "gpt2", inputs, flops,
                    constants=("w",), tolerance=1e-3, **more)


def stencil(n, **more):
    inputs = {"x": f32(n, n)}
    return Workload(f"heat {n}x{n}, 100 steps", "heat", inputs,
                    flops=100 * 6 * n * n, bytes=100 * 8 * n * n, **more)


def kmeans(n, d, k, **more):
    inputs = {"x": f32(n, d), "c": f32(k, d)}
    return Workload(f"k-means {n}x{d}, {k} clusters, 10 steps", "kmeans",
                    inputs, flops=10 * n * (3 * k * d + d),
                    bytes=10 * 4 * n * d, tolerance=5e-3, **more)


def nbody(n, **more):
    inputs = {"x": f32(n, 3), "m": f32(n, low=0.1)}
    return Workload(f"n-body {n}", "nbody", inputs, flops=19 * n * n,
                    tolerance=1e-3, **more)


def black_scholes(n, **more):
    inputs = {"s": f32(n, low=10, high=50), "k": f32(n, low=10, high=50),
              "t": f32(n, low=0.1, high=2)}
    return Workload(f"Black-Scholes {n >> 20}M", "black_scholes", inputs,
                    bytes=once(inputs, 8 * n), **more)


# ---- gradients and training steps

def conv_gradient(kernel, n, c, o, h, **more):
    image = f32(n, c, h, h)
    inputs = {"x": image, "w": f32(o, c, 3, 3, scale=(9 * c) ** -0.5),
              "g": f32(n, o, h, h)}
    return Workload(f"{kernel} {n}x{c}x{h}x{h} -> {o}, 3x3", kernel, inputs,
                    2 * n * o * h * h * c * 9, image.bytes * 2, training=True,
                    tolerance=1e-3, **more)


def attention_gradient(b, h, n, d, **more):
    inputs = {x: f32(b, h, n, d) for x in "qkvg"}
    return Workload(f"attention_grad {b}x{h}x{n}x{d}", "attention_grad", inputs,
                    14 * b * h * n * n * d, once(inputs, 12 * b * h * n * d),
                    training=True, tolerance=1e-3, **more)


def lstm_gradient(steps, n, d, m, **more):
    inputs = {"x": f32(steps, n, d), "wx": f32(4 * m, d, scale=0.05),
              "wh": f32(4 * m, m, scale=0.05), "b": f32(4 * m, scale=0.1)}
    return Workload(f"lstm_grad {steps} steps, {n}x{m}", "lstm_grad", inputs,
                    6 * steps * n * 4 * m * (d + m), training=True,
                    tolerance=1e-3, **more)


def mlp_step(batch, *widths, **more):
    inputs = {"x": f32(batch, widths[0]), "y": i64(batch, most=widths[-1])}
    flops = 0
    for i, (n, m) in enumerate(zip(widths, widths[1:]), 1):
        inputs |= {f"w{i}": f32(m, n, scale=n ** -0.5), f"b{i}": f32(m)}
        flops += (4 if i == 1 else 6) * batch * n * m
    return Workload(f"mlp_step {'-'.join(map(str, widths))} batch {batch}",
                    "mlp_step", inputs, flops, training=True, **more)


def cnn_epoch(images, **more):
    """44 steps of Adam for 1408 images: errors grow with the steps."""
    inputs = {"x": f32(images, 1, 8, 8), "y": i64(images, most=10)}
    shapes = ((16, 1, 3, 3), (32, 16, 3, 3), (64, 32, 3, 3), (10, 64))
    for i, shape in enumerate(shapes, 1):
        fan = shape[1] * (9 if len(shape) == 4 else 1)
        inputs |= {f"w{i}": f32(*shape, scale=(2 / fan) ** 0.5),
                   f"b{i}": f32(shape[0], scale=0.1)}
    flops = images * 2 * (64 * 16 * 9 * 2 + 64 * 32 * 16 * 9 * 3
                          + 16 * 64 * 32 * 9 * 3)
    return Workload(f"cnn_epoch {images} images", "cnn_epoch", inputs, flops,
                    training=True, tolerance=2e-2, **more)


def char_gpt_step(batch, length, **more):
    inputs = {"x": i64(batch, length, most=65),
              "y": i64(batch, length, most=65),
              "w": tensors("char_gpt")}
    flops = 6 * batch * length * (4 * 12 * 128 * 128 + 65 * 128) \
        + 12 * 4 * batch * length * length * 128
    return Workload(f"char_gpt_step {batch}x{length}", "char_gpt_step", inputs,
                    flops, training=True, tolerance=1e-3, **more)


PRODUCT = dict(goals=[(1.0, best), (0.90, "limit")])
M = 1 << 20

GOALS = [
    *(square(n, **PRODUCT) for n in (256, 512, 1024, 2048)),
    matmul(1024, 4096, 1024, **PRODUCT),
    matmul(1024, 1024, 4096, **PRODUCT),
    *(square(n, **PRODUCT) for n in (1000, 1023)),
    linear("linear_gelu", 1024, 4096, 1024,
           goals=[(1.05, "onednn"), (1.6, "torch")]),
    matmul_bf16(1024, 1024, 1024, goals=[(1.0, "onednn")]),
    matmul_bf16(1024, 4096, 1024, goals=[(1.0, "onednn")]),
    pointwise("tanh_chain", 16 * M, goals=[(10, "numpy"), (0.85, "limit")]),
    rows("softmax", 4096, 1024, goals=[(1.3, best)]),
    rows("layernorm", 4096, 1024, affine=True, goals=[(1.0, best)]),
    pointwise("sum", 64 * M, out=4, goals=[(0.9, "limit")]),
    rows("column_sums", 8192, 8192, out=8192, goals=[(0.9, "limit")]),
    pointwise("variance", 64 * M, out=4, goals=[(0.9, "limit")]),
    attention("attention", 4, 8, 1024, 64,
              goals=[(6.5, "numpy"), (1.0, best), (0.65, "limit")]),
    attention("attention_causal", 4, 8, 1024, 64,
              goals=[(6.5, "numpy"), (1.0, best), (0.65, "limit")]),
    conv("conv2d", 8, 64, 64, 56, 3, goals=[(1.0, best)]),
    resnet18(1, goals=[(1.0, best)]),
    conv("depthwise", 8, 144, 144, 56, 3, goals=[(1.0, best)]),
    mlp(256, 784, 512, 512, 10, goals=[(1.2, best)]),
    mlp(1, 784, 512, 512, 10, goals=[(1.2, best)]),
    batched(4096, 32, goals=[(1.1, best)]),
    batched(65536, 4, goals=[(5.0, best)]),
    gather(16384, 50000, 256, goals=[(1.2, best)]),
    embedding_bag(4096, 32, 50000, 256, goals=[(1.2, best)]),
    ragged_bag(4096, 131072, 50000, 256, goals=[(1.2, best)]),
    csr("csr_vector", 70000, 237000, goals=[(1.5, "numpy")]),
    csr("csr_vector", 70000, 2400000, goals=[(1.5, "numpy")]),
    csr("csr_matrix", 70000, 237000, 64, goals=[(3, "numpy")]),
    black_scholes(4 * M, goals=[(5, "numpy"), (1.0, "jax")]),
    stencil(4096, goals=[(5, "numpy"), (1.0, "jax")]),
    kmeans(M, 16, 10, goals=[(5, "numpy"), (1.0, "jax")]),
    nbody(8192, goals=[(5, "numpy"), (1.0, "jax")]),
    gpt2(1, 256, goals=[(1.2, best)]),
    mlp_step(256, 784, 512, 512, 10, goals=[(1.2, best)]),
    cnn_epoch(1408, goals=[(1.3, best)]),
    char_gpt_step(12, 64, goals=[(1.3, best)]),
    conv_gradient("conv2d_dx", 8, 64, 64, 56, goals=[(1.2, best)]),
    conv_gradient("conv2d_dw", 8, 64, 64, 56, goals=[(1.2, best)]),
    attention_gradient(4, 8, 1024, 64, goals=[(3.0, best)]),
    lstm_gradient(100, 16, 128, 256, goals=[(1.2, best)]),
]

OTHERS = [
    square(64), square(100), square(384), square(1536),
    matmul(333, 777, 555), matmul(17, 4096, 300), matmul(4000, 48, 2000),
    matmul(1, 4096, 4096), matmul(4096, 1, 4096),
    *(matmul(m, 1024, 1024) for m in (3, 9, 20, 64)), matmul(20, 4096, 4096),
    matmul_bf16(500, 300, 700),
    linear("linear_gelu", 200, 1000, 300),
    linear("linear_silu", 512, 2048, 512),
    linear("linear_tanh", 4096, 64, 256),
    pointwise("tanh_chain", 1000), pointwise("tanh_chain", 100000),
    pointwise("tanh_chain", 3 * M + 1),
    pointwise("gaussian", 8 * M), pointwise("triad", 16 * M, "xyz"),
    pointwise("smooth", 2 * M, "xy"),
    rows("softmax", 1000, 1000), rows("softmax", 128, 50257),
    rows("softmax", 100000, 10), rows("log_softmax", 2048, 3000),
    rows("layernorm", 256, 768, affine=True), rows("rmsnorm", 2048, 4096),
    pointwise("sum", 1000, out=4), pointwise("sum", 1000000, out=4),
    rows("column_sums", 1000, 3000, out=3000),
    rows("row_max", 10000, 500, out=10000), rows("row_argmax", 5000, 700,
                                                 out=2 * 5000),
    rows("transposed", 3000, 5000), rows("cumulative", 2000, 2000),
    attention("attention", 1, 12, 256, 64),
    attention("attention", 2, 5, 777, 80),
    attention("attention_causal", 1, 16, 2048, 128),
    conv("conv2d", 4, 32, 96, 28, 5), conv("conv2d", 16, 256, 256, 14, 1),
    conv("conv2d", 1, 3, 64, 224, 7), conv("conv2d", 2, 17, 23, 61, 3),
    conv("depthwise", 1, 32, 32, 112, 5),
    mlp(100, 1000, 300, 200, 50, kernel="mlp"), mlp(32, 64, 64, 64, 1),
    batched(1000, 50), batched(128, 128), batched(20000, 8),
    gather(1000, 1000, 1000), embedding_bag(512, 100, 10000, 64),
    black_scholes(M // 2), stencil(1000), kmeans(100000, 50, 7), nbody(1500),
    resnet18(8), gpt2(4, 64),
]
for w in OTHERS:
    w.other = True

ALL = GOALS + OTHERS
