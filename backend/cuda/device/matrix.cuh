//@ ax_ldmatrix_1 ax_ldmatrix_2 ax_ldmatrix_4
/* 9.7.14.5.15, ldmatrix: so many matrices of 8 x 8 elements of 16 bits, a
 * register each.  Row r of matrix k is the 16 bytes where lane 8 * k + r says
 * (lanes that have no row say anything). */
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
/* The same, each matrix transposed. */
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
/* 9.7.14.5.16, stmatrix: ldmatrix the other way. */
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
/* The same, each matrix transposed. */
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
/* 9.7.14.5.14, mma: d += a * b, in f32.  Of a thread d has 4 elements, a 4
 * registers, b 2 (9.7.14.5.8: which elements). */
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

//@ ax_mma_m16n8k8_f16
/* The same: d has 4 elements, a 2 registers, b 1 (9.7.14.5.7). */
AX_DEVICE void ax_mma_m16n8k8_f16(float *d, const unsigned *a,
                                  const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

//@ ax_mma_m16n8k8_tf32
/* The same: d has 4 elements, a 4 registers, b 2, of an element each, whose low
 * 13 bits are 0 (ax_tf32). */
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
