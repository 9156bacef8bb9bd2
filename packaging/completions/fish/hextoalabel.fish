# fish completion for hextoalabel(1). Generated: cargo run -p generate

complete -c hextoalabel -f
complete -c hextoalabel -s c -d 'clearances'
complete -c hextoalabel -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c hextoalabel -s s -d 'sensitivity labels (the default)'
