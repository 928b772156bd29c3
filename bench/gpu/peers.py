"""The peers of each group of workloads.  A function with the name of the group
returns the available peers: for each name, a function without arguments.  All
peers are functions of PyTorch.  `missing` lists those that are not
installed."""

import math

import workloads

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

missing = []                    # a line for each missing peer


def find_missing():
    if not torch:
        missing.append("torch: not installed, and with it every peer")
        return
    if not torch.cuda.is_available():
        missing.append("torch: it finds no GPU")
    if not triton:
        missing.append("triton: not installed (torch.compile needs it, too)")
    try:
        from torch.nn.attention.flex_attention import flex_attention  # noqa
    except ImportError:
        missing.append("FlexAttention: not in this PyTorch")
    if not torch.backends.cudnn.is_available():
        missing.append("cuDNN: not in this PyTorch")


mode = "default"                # of torch.compile


def compiled(f, *args):
    def first():
        # what was compiled of other shapes counts: after eight it would run as
        # it is
        torch.compiler.reset()
        made.append(torch.compile(f, dynamic=False, mode=mode))
        return made[0](*args)
    made = []
    return lambda: made[0](*args) if made else first()


def tensor(kind, extents):
    """The numbers of workloads.program."""
    total = 0
    for axis, n in enumerate(extents):
        shape = [1] * len(extents)
        shape[axis] = n
        total = total + (torch.arange(n, device="cuda") *
                         workloads.STEPS[axis]).view(shape)
    x = total % workloads.PRIME
    for _ in range(2):
        x = (x * x + 7 * x) % workloads.PRIME
    x = (x % 255 - 127).float() / 64
    return x.bfloat16() if kind == "bf16" else x


# ---- products ----

if triton:
    CONFIGS = [triton.Config({"M": m, "N": n, "K": k}, num_stages=s,
                             num_warps=w)
               for m, n, k, s, w in ((128, 256, 64, 3, 8), (128, 128, 64, 4, 8),
                                     (64, 128, 64, 4, 4), (32, 128, 64, 5, 4),
                                     (16, 64, 128, 5, 4), (256, 128, 64, 3, 8))]

    @triton.autotune(configs=CONFIGS, key=["m", "n", "k"])
    @triton.jit
    def triton_product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr,
                       K: tl.constexpr):
        high = tl.cdiv(m, M)
        wide = tl.cdiv(n, N)
        at = tl.program_id(0)
        group = at // (8 * wide)
        rows = min(high - group * 8, 8)
        i = group * 8 + at % (8 * wide) % rows
        j = at % (8 * wide) // rows
        y = i * M + tl.arange(0, M)
        x = j * N + tl.arange(0, N)
        z = tl.arange(0, K)
        sums = tl.zeros((M, N), dtype=tl.float32)
        for s in range(0, k, K):
            p = tl.load(a + y[:, None] * k + (s + z)[None, :],
                        (y[:, None] < m) & ((s + z)[None, :] < k), 0.0)
            q = tl.load(b + (s + z)[:, None] * n + x[None, :],
                        ((s + z)[:, None] < k) & (x[None, :] < n), 0.0)
            sums = tl.dot(p, q, sums)
        tl.store(c + y[:, None] * n + x[None, :], sums.to(tl.bfloat16),
                 (y[:, None] < m) & (x[None, :] < n))


def gemm(w, t):
    x, y = t["x"], t["w"]
    (m, k), n = x.shape, y.shape[1]
    peers = {"cuBLAS": lambda: torch.mm(x, y)}
    if mode != "default":       # otherwise PyTorch calls cuBLAS
        peers["torch.compile"] = compiled(torch.mm, x, y)
    if triton:
        out = torch.empty(m, n, dtype=x.dtype, device=x.device)

        def by_triton():
            triton_product[lambda c: (triton.cdiv(m, c["M"]) *
                                      triton.cdiv(n, c["N"]),)](
                x, y, out, m, n, k)
            return out
        peers["Triton"] = by_triton
    return peers


def gelu(w, t):
    x, y, b = t["x"], t["w"], t["b"]

    def plain(x, y, b):
        return F.gelu(torch.addmm(b, x, y), approximate="tanh")
    return {"cuBLASLt": lambda: torch._addmm_activation(b, x, y, use_gelu=True),
            "eager": lambda: plain(x, y, b),
            "torch.compile": compiled(plain, x, y, b)}


def residual(w, t):
    x, y, r = t["x"], t["w"], t["r"]

    def plain(x, y, r):
        return torch.addmm(r, x, y, alpha=0.5)
    return {"cuBLASLt": lambda: plain(x, y, r),
            "torch.compile": compiled(plain, x, y, r)}


def losses(w, t):
    def plain(x, y):
        return torch.logsumexp((x @ y).float(), dim=1)
    return both(plain, t["x"], t["w"])


# ---- attention ----

def attention(w, t):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    peers = {}
    for name, backend in (("flash", "FLASH_ATTENTION"),
                          ("efficient", "EFFICIENT_ATTENTION"),
                          ("cuDNN", "CUDNN_ATTENTION"), ("math", "MATH")):
        if not hasattr(SDPBackend, backend):
            continue
        if name == "math" and t["q"].shape[2] > 4096:
            continue            # its scores would fill the memory

        def call(kind=getattr(SDPBackend, backend)):
            with sdpa_kernel(kind):
                return F.scaled_dot_product_attention(
                    t["q"], t["k"], t["v"], is_causal=w.causal)
        peers["SDPA " + name] = call
    return peers


def variants(w, t):
    from torch.nn.attention.flex_attention import (create_block_mask,
                                                   flex_attention)
    q, k, v = t["q"], t["k"], t["v"]
    heads, n = q.shape[1], q.shape[2]
    if w.function == "sigmoid":  # no softmax: FlexAttention has none such
        def plain(q, k, v):
            s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            return torch.sigmoid(s - math.log(n)) @ v
        return {"torch.compile": compiled(plain, q, k, v)}
    score, mask = None, None
    if w.function == "softcap":
        def score(s, b, h, i, j):
            return 30 * torch.tanh(s / 30)
    if w.function == "alibi":
        def score(s, b, h, i, j):
            return s - torch.exp2(-8.0 * (h + 1) / heads) * (i - j)
    if w.function == "alibi":
        def seen(b, h, i, j):
            return j <= i
        mask = create_block_mask(seen, None, None, n, n)
    if w.function == "window":
        def seen(b, h, i, j):
            return (j <= i) & (i - j < 1024)
        mask = create_block_mask(seen, None, None, n, n)
    return {"FlexAttention": compiled(
        lambda q, k, v: flex_attention(q, k, v, score_mod=score,
                                       block_mask=mask), q, k, v)}


# ---- what memory bounds ----

def both(f, *args):
    return {"eager": lambda: f(*args), "torch.compile": compiled(f, *args)}


def chain(w, t):
    return both(lambda x: torch.tanh(x * 0.5 + 0.25) * x, t["x"])


def softmax(w, t):
    return both(lambda x: F.softmax(x, -1), t["x"])


def layernorm(w, t):
    return both(lambda x, g, b: F.layer_norm(x, (x.shape[1],), g, b), t["x"],
                t["w"], t["b"])


def rows(w, t):
    return both(lambda x: x.sum(1), t["x"])


def columns(w, t):
    return both(lambda x: x.sum(0), t["x"])


# ---- convolutions ----

def conv(w, t):
    x = t["x"].permute(0, 3, 1, 2)      # channels last
    y = t["w"].permute(0, 3, 1, 2)
    stride = w.more.get("stride", 1)
    torch.backends.cudnn.benchmark = True

    def plain(x, y):
        return F.conv2d(x, y, stride=stride, padding=1)
    return {"cuDNN": lambda: plain(x, y),
            "torch.compile": compiled(plain, x, y)}


def result(w, x):
    """As ours lies."""
    return x.permute(0, 2, 3, 1) if w.group == "conv" else x
