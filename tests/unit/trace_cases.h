/* Functions of all kinds, and sizes at which they are compared: 0, 1, primes;
 * also such as they refuse. */
#define SQUARES {"n=0 m=3", "n=1 m=1", "n=5 m=7", "n=3 m=0", "n=2 m=13"}
#define ROWS {"n=0", "n=1", "n=2", "n=7", "n=13"}

static const Case cases[] = {
    {"fun f (x : f32[n]) = tanh (x * 2.0 + 1.0)", "f", ROWS},
    {"fun f (x : f32[n, m]) = softmax x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = sum ~axis:0 x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = x - mean ~axis:-1 ~keep:true x", "f", SQUARES},
    {"fun f (x : f32[n, m]) (y : f32[m]) = x * y + x.[:, 0][:, *]", "f",
     SQUARES},
};
