"""The workloads in PyTorch: eager, compiled, and exported for ONNX Runtime.
Parameters are stored in modules, so that they can be prepared once."""

import functools
import os

import torch
import torch.nn.functional as F

import train_torch

torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
torch.set_grad_enabled(False)
VERSION = f"PyTorch {torch.__version__}"


class Held(torch.nn.Module):
    """A kernel with its constants; the other inputs are its arguments."""

    def __init__(self, kernel, workload, inputs):
        super().__init__()
        self.kernel, self.held, self.tables = kernel, {}, {}
        for name in workload.constants:
            value = inputs[name]
            if isinstance(value, dict):
                self.tables[name] = {}
                for key, x in value.items():
                    self.hold(self.tables[name], key, x)
            else:
                self.hold(self.held, name, value)
        self.arguments = [n for n in inputs if n not in workload.constants]

    def hold(self, table, key, x):
        slot = "held_" + key.replace(".", "_")
        self.register_buffer(slot, x)
        table[key] = slot

    def forward(self, *arguments):
        inputs = dict(zip(self.arguments, arguments))
        for name, slot in self.held.items():
            inputs[name] = getattr(self, slot)
        for name, table in self.tables.items():
            inputs[name] = {k: getattr(self, s) for k, s in table.items()}
        return self.kernel(**inputs)


def tensor(x, like):
    if isinstance(x, dict):
        return {name: torch.from_numpy(y) for name, y in x.items()}
    x = torch.from_numpy(x)
    return x.bfloat16() if like.dtype == "bf16" else x


def held(workload, inputs):
    inputs = {name: tensor(x, workload.inputs[name])
              for name, x in inputs.items()}
    module = Held(globals()[workload.kernel], workload, inputs).eval()
    return module, [inputs[name] for name in module.arguments]


def supports(workload):
    return workload.training or workload.kernel in globals()


def prepare_training(workload, inputs):
    import torch._inductor.config as config
    config.freezing = False
    config.cpp.threads = torch.get_num_threads()
    torch._dynamo.reset()
    f = train_torch.kernel(workload.kernel,
                           os.environ["BENCH_PEER"] == "torch.compile")
    inputs = {name: tensor(x, workload.inputs[name])
              for name, x in inputs.items()}
    return lambda: f(**inputs)


def prepare(workload, inputs):
    if workload.training:
        return prepare_training(workload, inputs)
    module, arguments = held(workload, inputs)
    if os.environ["BENCH_PEER"] == "torch.compile":
        module = compiled(module)
    return lambda: module(*arguments)


def compiled(module):
    """Compiles only the step of a loop, since a loop would be unrolled."""
    import torch._inductor.config as config
    config.freezing = True
    config.cpp.threads = torch.get_num_threads()
    torch._dynamo.reset()
    step = STEPS.get(module.kernel)
    if not step:
        return torch.compile(module)
    module.kernel = functools.partial(module.kernel, step=torch.compile(step))
    return module


def finish(result):
    return result.float().numpy() if result.is_floating_point() \
        else result.numpy()


def matmul(a, b):
    return a @ b


matmul_bf16 = matmul


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def linear_silu(x, w, b):
    return F.silu(F.linear(x, w, b))


def linear_tanh(x, w, b):
    return torch.tanh(F.linear(x, w, b))


def tanh_chain(x):
    return torch.tanh(1.5 * x + 0.5) * x


def gaussian(x):
    return x * torch.exp(-0.5 * x * x)


def triad(x, y, z):
    return torch.addcmul(z, x, y)


def smooth(x, y):
    return torch.sqrt(x * x + y * y) / (1 + abs(x - y))


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax(x):
    return torch.log_softmax(x, -1)


def layernorm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def rmsnorm(x):
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


def sum(x):
    return x.sum()


def column_sums(x):
    return x.sum(0)


def variance(x):
    return x.var(correction=0)


def row_max(x):
    return x.amax(1)


def row_argmax(x):
    return x.argmax(1)


def transposed(x):
    return x.T.contiguous()


def cumulative(x):
    return x.cumsum(1)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def conv2d(x, w, b):
    return F.conv2d(x, w, b, padding=w.shape[-1] // 2)


def depthwise(x, w, b):
    return F.conv2d(x, w[:, None], b, padding=w.shape[-1] // 2,
                    groups=w.shape[0])


def mlp(x, w1, b1, w2, b2, w3, b3):
    x = F.relu(F.linear(x, w1, b1))
    x = F.relu(F.linear(x, w2, b2))
    return F.linear(x, w3, b3)


def gather(w, i):
    return F.embedding(i, w)


def embedding_bag(w, i):
    return F.embedding_bag(i, w, mode="sum")


def ragged_bag(w, start, i):
    return F.embedding_bag(i, w, start, mode="sum", include_last_offset=True)


MATRICES = {}


def csr_product(start, column, value, x):
    """The matrix is made once."""
    key = id(value)
    if key not in MATRICES:
        n = len(start) - 1
        MATRICES[key] = torch.sparse_csr_tensor(start, column, value, (n, n))
    return MATRICES[key] @ x


csr_vector = csr_matrix = csr_product


def black_scholes(s, k, t):
    r, v = 0.02, 0.3
    spread = v * torch.sqrt(t)
    d1 = (torch.log(s / k) + (r + 0.5 * v * v) * t) / spread
    d2 = d1 - spread
    worth = k * torch.exp(-r * t)
    below = lambda x: 0.5 * (1 + torch.erf(x * 0.5 ** 0.5))
    call = s * below(d1) - worth * below(d2)
    return torch.stack([call, call - s + worth])


def heat_step(x):
    y = x.clone()
    y[1:-1, 1:-1] += 0.1 * (
        x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
        - 4 * x[1:-1, 1:-1])
    return y


def heat(x, step=heat_step):
    for _ in range(100):
        x = step(x)
    return x


def kmeans_step(x, c):
    of = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
    member = F.one_hot(of, c.shape[0]).float()
    return member.T @ x / member.sum(0).clamp(min=1)[:, None]


def kmeans(x, c, step=kmeans_step):
    for _ in range(10):
        c = step(x, c)
    return c


STEPS = {heat: heat_step, kmeans: kmeans_step}


def nbody(x, m):
    d = x[None, :, :] - x[:, None, :]
    r = (d * d).sum(-1) + 1e-2
    return torch.einsum("ij,ijk->ik", m / (r * torch.sqrt(r)), d)


# ---- models

def resnet18(x, w):
    def part(name, x, stride, padding, at=None):
        get = (lambda n: w[n]) if at is None else (lambda n: w[n][at])
        x = F.conv2d(x, get(f"p.{name}.conv"), None, stride, padding)
        return F.batch_norm(x, get(f"s.{name}.mean"), get(f"s.{name}.var"),
                            get(f"p.{name}.norm.w"), get(f"p.{name}.norm.b"))

    def block(name, x, stride=1, at=None):
        y = F.relu(part(f"{name}.a", x, stride, 1, at))
        return part(f"{name}.b", y, 1, 1, at)

    x = F.max_pool2d(F.relu(part("stem", x, 2, 3)), 3, 2, 1)
    for i in range(2):
        x = F.relu(x + block("stage1", x, at=i))
    for s in ("stage2", "stage3", "stage4"):
        x = F.relu(block(f"{s}.first", x, 2) + part(f"{s}.short", x, 2, 0))
        x = F.relu(x + block(f"{s}.rest", x, at=0))
    return F.linear(x.mean((2, 3)), w["p.head.w"], w["p.head.b"])


def gpt2(i, w):
    b, n = i.shape
    d = w["places"].shape[1]
    x = F.embedding(i, w["tokens.w"]) + w["places"][:n]
    for k in range(w["blocks.norm1.w"].shape[0]):
        get = lambda name: (w[f"blocks.{name}.w"][k], w[f"blocks.{name}.b"][k])
        y = F.linear(F.layer_norm(x, (d,), *get("norm1")),
                     *get("attention.qkv"))
        q, key, v = (z.view(b, n, 12, 64).transpose(1, 2)
                     for z in y.split(d, -1))
        y = F.scaled_dot_product_attention(q, key, v, is_causal=True)
        x = x + F.linear(y.transpose(1, 2).reshape(b, n, d),
                         *get("attention.out"))
        y = F.linear(F.layer_norm(x, (d,), *get("norm2")), *get("up"))
        x = x + F.linear(F.gelu(y, approximate="tanh"), *get("down"))
    x = F.layer_norm(x, (d,), w["norm.w"], w["norm.b"])
    return F.linear(x, w["tokens.w"])
