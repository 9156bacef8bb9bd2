# fish completion for getlabel(1). Generated: cargo run -p generate

complete -c getlabel -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c getlabel -s S -d 'long names (the default)'
complete -c getlabel -s s -d 'short names'
