//@ ax_ldmatrix_1 ax_ldmatrix_2 ax_ldmatrix_4
/* 9.7.14.5.15, ldmatrix: loads 1, 2 or 4 matrices of 8 x 8 16-bit elements,
 * one register each.  Lane 8 * k + r gives the address of row r of matrix k,
 * which has 16 bytes.  Other lanes may give any address. */
AX_DEVICE void ax_ldmatrix_1(unsigned *r, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(row)
               : "memory");
}
AX_DEVICE void ax_ldmatrix_2(unsigned *r, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
AX_DEVICE void ax_ldmatrix_4(unsigned *r, unsigned row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(row)
      : "memory");
}

//@ ax_ldmatrix_1_trans ax_ldmatrix_2_trans ax_ldmatrix_4_trans
/* The same, with each matrix transposed. */
AX_DEVICE void ax_ldmatrix_1_trans(unsigned *r, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(r[0])
               : "r"(row)
               : "memory");
}
AX_DEVICE void ax_ldmatrix_2_trans(unsigned *r, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
AX_DEVICE void ax_ldmatrix_4_trans(unsigned *r, unsigned row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(row)
      : "memory");
}

//@ ax_stmatrix_1 ax_stmatrix_2 ax_stmatrix_4
/* 9.7.14.5.16, stmatrix: stores matrices in the layout of ldmatrix. */
#if __CUDA_ARCH__ < 900
#error "ax_stmatrix_4: stmatrix is of sm_90 on"
#endif
AX_DEVICE void ax_stmatrix_1(unsigned row, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row),
               "r"(r[0])
               : "memory");
}
AX_DEVICE void ax_stmatrix_2(unsigned row, const unsigned *r) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row),
      "r"(r[0]), "r"(r[1])
      : "memory");
}
AX_DEVICE void ax_stmatrix_4(unsigned row, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
               "{%1, %2, %3, %4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

//@ ax_stmatrix_1_trans ax_stmatrix_2_trans ax_stmatrix_4_trans
/* The same, with each matrix transposed. */
#if __CUDA_ARCH__ < 900
#error "ax_stmatrix_4_trans: stmatrix is of sm_90 on"
#endif
AX_DEVICE void ax_stmatrix_1_trans(unsigned row, const unsigned *r) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row),
      "r"(r[0])
      : "memory");
}
AX_DEVICE void ax_stmatrix_2_trans(unsigned row, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], "
               "{%1, %2};" ::"r"(row),
               "r"(r[0]), "r"(r[1])
               : "memory");
}
AX_DEVICE void ax_stmatrix_4_trans(unsigned row, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], "
               "{%1, %2, %3, %4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

//@ ax_mma_m16n8k16_f16 ax_mma_m16n8k16_bf16
/* 9.7.14.5.14, mma: d += a * b with f32 accumulators.  A thread has 4 elements
 * of d, 4 registers of a and 2 of b (fragment layout: 9.7.14.5.8). */
#if __CUDA_ARCH__ < 800
#error "ax_mma_m16n8k16: of sm_80 on; sm_75 has ax_mma_m16n8k8_f16"
#endif
AX_DEVICE void ax_mma_m16n8k16_f16(float *d, const unsigned *a,
                                   const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}
AX_DEVICE void ax_mma_m16n8k16_bf16(float *d, const unsigned *a,
                                    const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}

//@ ax_mma_m16n8k32_e4m3 ax_mma_m16n8k32_e5m2
/* The same for 8-bit floats: a register has 4 elements (9.7.14.5.11). */
#if __CUDA_ARCH__ < 890
#error "ax_mma_m16n8k32: of sm_89 on"
#endif
AX_DEVICE void ax_mma_m16n8k32_e4m3(float *d, const unsigned *a,
                                    const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}
AX_DEVICE void ax_mma_m16n8k32_e5m2(float *d, const unsigned *a,
                                    const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}

//@ ax_mma_m16n8k8_f16
/* The same: 4 elements of d, 2 registers of a and 1 of b (9.7.14.5.7). */
AX_DEVICE void ax_mma_m16n8k8_f16(float *d, const unsigned *a,
                                  const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

//@ ax_mma_m16n8k8_tf32
/* The same: 4 elements of d, 4 registers of a and 2 of b.  A register has one
 * element, whose low 13 bits are 0 (ax_tf32). */
#if __CUDA_ARCH__ < 800
#error "ax_mma_m16n8k8_tf32: of sm_80 on"
#endif
AX_DEVICE void ax_mma_m16n8k8_tf32(float *d, const unsigned *a,
                                   const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                 "r"(b[1]));
}
