# fish completion for atohexlabel(1). Generated: cargo run -p generate

complete -c atohexlabel -f
complete -c atohexlabel -s c -d 'clearances'
complete -c atohexlabel -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c atohexlabel -s s -d 'sensitivity labels (the default)'
