    .pushsection .text.zone_memory, "ax"

    .globl memcpy
memcpy:
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret

    .globl memmove
memmove:
    mov rax, rdi
    mov rcx, rdx
    mov r8, rdi
    sub r8, rsi
    cmp r8, rdx
    jb 2f
    rep movsb
    ret
2:  lea rdi, [rdi + rdx - 1]
    lea rsi, [rsi + rdx - 1]
    std
    rep movsb
    cld
    ret

    .globl memset
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret

    .globl memcmp
    .globl bcmp
memcmp:
bcmp:
    xor eax, eax
    mov rcx, rdx
    cmp eax, eax
    repe cmpsb
    je 3f
    movzx eax, byte ptr [rdi - 1]
    movzx ecx, byte ptr [rsi - 1]
    sub eax, ecx
3:  ret

    .globl strlen
strlen:
    mov rax, -1
4:  inc rax
    cmp byte ptr [rdi + rax], 0
    jne 4b
    ret

    .popsection
