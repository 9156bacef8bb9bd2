    .pushsection .text.zone_memory, "ax"

    .globl memcpy
memcpy:
    mov x3, x0
2:  cbz x2, 3f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 2b
3:  ret

    .globl memmove
memmove:
    sub x3, x0, x1
    cmp x3, x2
    b.hs memcpy
2:  cbz x2, 3f
    sub x2, x2, #1
    ldrb w4, [x1, x2]
    strb w4, [x0, x2]
    b 2b
3:  ret

    .globl memset
memset:
    mov x3, x0
2:  cbz x2, 3f
    strb w1, [x3], #1
    sub x2, x2, #1
    b 2b
3:  ret

    .globl memcmp
    .globl bcmp
memcmp:
bcmp:
    mov x3, x0
    mov w0, wzr
2:  cbz x2, 3f
    ldrb w4, [x3], #1
    ldrb w5, [x1], #1
    sub x2, x2, #1
    subs w0, w4, w5
    b.eq 2b
3:  ret

    .globl strlen
strlen:
    mov x1, x0
    mov x0, xzr
2:  ldrb w2, [x1, x0]
    cbz w2, 3f
    add x0, x0, #1
    b 2b
3:  ret

    .popsection
