# fish completion for plabel(1). Generated: cargo run -p generate

complete -c plabel -f
complete -c plabel -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c plabel -s S -d 'long names (the default)'
complete -c plabel -s s -d 'short names'
