"""The workloads with gradients in PyTorch.  `compiled` is torch.compile, or
the identity for eager runs."""

import torch
import torch.nn.functional as F


def gradients(loss, p):
    with torch.enable_grad():
        p = {name: x.detach().requires_grad_() for name, x in p.items()}
        value = loss(p)
    return dict(zip(p, torch.autograd.grad(value, list(p.values()))))


def flat(p):
    return torch.cat([x.flatten() for x in p.values()])


def conv2d_dx(compiled):
    return lambda x, w, g: torch.ops.aten.convolution_backward(
        g, x, w, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
        (True, False, False))[0]


def conv2d_dw(compiled):
    return lambda x, w, g: torch.ops.aten.convolution_backward(
        g, x, w, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
        (False, True, False))[1]


def attention_grad(compiled):
    @compiled
    def loss(p, g):
        out = F.scaled_dot_product_attention(p["q"], p["k"], p["v"])
        return (g * out).sum()

    def run(q, k, v, g):
        found = gradients(lambda p: loss(p, g), {"q": q, "k": k, "v": v})
        return torch.cat([found["q"], found["k"], found["v"]])
    return run


def lstm_grad(compiled):
    def run(x, wx, wh, b):
        def loss(p):
            state = x.new_zeros(1, x.shape[1], wh.shape[1])
            y = torch._VF.lstm(x, (state, state),
                               [p["wx"], p["wh"], p["b"],
                                torch.zeros_like(p["b"])],
                               True, 1, 0.0, True, False, False)[0]
            return y.square().mean()
        return flat(gradients(loss, {"wx": wx, "wh": wh, "b": b}))
    return run


def layers(inputs, names):
    return {a + i: inputs[a + i] for i in names for a in "wb"}


def mlp_step(compiled):
    @compiled
    def loss(p, x, y):
        for i in "12":
            x = F.relu(F.linear(x, p["w" + i], p["b" + i]))
        return F.cross_entropy(F.linear(x, p["w3"], p["b3"]), y)

    @compiled
    def update(p, g):
        return {name: x - 0.05 * g[name] for name, x in p.items()}

    def run(x, y, **inputs):
        p = layers(inputs, "123")
        return flat(update(p, gradients(lambda p: loss(p, x, y), p)))
    return run


def adam(compiled, rate, beta1=0.9, beta2=0.999, eps=1e-8, decay=None):
    """decay: names of parameters -> weight decay."""
    @compiled
    def update(p, m, v, g, c1, c2):
        new = ({}, {}, {})
        for name, x in p.items():
            first = beta1 * m[name] + (1 - beta1) * g[name]
            second = beta2 * v[name] + (1 - beta2) * g[name].square()
            if decay:
                x = x - rate * decay(name) * x
            new[0][name] = x - rate * (first / c1) / ((second / c2).sqrt()
                                                      + eps)
            new[1][name], new[2][name] = first, second
        return new

    def step(state, g, t):
        one = next(iter(g.values())).new_ones(())
        return update(*state, g, one * (1 - beta1 ** t), one * (1 - beta2 ** t))
    return step


def cnn_epoch(compiled):
    @compiled
    def loss(p, x, y):
        x = F.conv2d(x, p["w1"], p["b1"], padding=1).relu()
        x = F.conv2d(x, p["w2"], p["b2"], padding=1).relu()
        x = F.conv2d(F.max_pool2d(x, 2), p["w3"], p["b3"], padding=1).relu()
        return F.cross_entropy(F.linear(x.mean((2, 3)), p["w4"], p["b4"]), y)

    update = adam(compiled, 1e-3)

    def run(x, y, **inputs):
        p = layers(inputs, "1234")
        state = (p, *({name: torch.zeros_like(x) for name, x in p.items()}
                      for _ in range(2)))
        for t in range(len(x) // 32):
            rows = slice(32 * t, 32 * t + 32)
            g = gradients(lambda p: loss(p, x[rows], y[rows]), state[0])
            state = update(state, g, t + 1)
        return flat(state[0])
    return run


def char_gpt_step(compiled):
    def attention(p, i, x):
        b, n, d = x.shape
        parts = F.linear(x, p["qkv"][i]).split(d, dim=2)
        q, k, v = (y.view(b, n, 4, -1).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).reshape(b, n, d), p["out"][i])

    def norm(p, name, x, i=slice(None)):
        return F.layer_norm(x, x.shape[-1:], p[name + ".w"][i],
                            p[name + ".b"][i])

    @compiled
    def loss(p, x, y):
        x = p["characters"][x] + p["places"]
        for i in range(len(p["qkv"])):
            x = x + attention(p, i, norm(p, "norm1", x, i))
            up = F.gelu(F.linear(norm(p, "norm2", x, i), p["up"][i]))
            x = x + F.linear(up, p["down"][i])
        logits = F.linear(norm(p, "norm", x), p["characters"])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    def decay(name):
        return 0.0 if name in ("norm.w", "norm.b") else 0.1

    update = adam(compiled, 1e-3, beta2=0.99, decay=decay)

    def run(x, y, w):
        state = [{name[2:]: t for name, t in w.items() if name[0] == part}
                 for part in "pmv"]
        g = gradients(lambda p: loss(p, x, y), state[0])
        return torch.cat([flat(part) for part in update(state, g, 10)])
    return run


def kernel(name, compile_it):
    return globals()[name](torch.compile if compile_it else lambda f: f)
