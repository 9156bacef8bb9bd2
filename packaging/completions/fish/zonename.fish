# fish completion for zonename(1). Generated: cargo run -p generate

complete -c zonename -f
